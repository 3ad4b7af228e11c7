"""MLflow's scoring protocol: POST /invocations, GET /ping and /version."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from headrace.server.features.entity_keys import short_json
from headrace.server.http.responses import BadRequest, Response, UnsupportedMediaType, encode_json, parse_json
from headrace.server.http.routing import Request
from headrace.server.inference.predictor import Predictor, RequestContext
from headrace.server.inference.request_columns import Columns, TableScorer

VERSION = version("headrace").encode()
TEXT_CONTENT_TYPE = b"text/plain"
INPUT_FORMATS = ("dataframe_split", "dataframe_records", "instances", "inputs")
EXAMPLE = '{"dataframe_split": {"columns": ["card", "amount"], "data": [["c1", 90]]}}'


async def handle_ping(_request: Request) -> Response:
    """Liveness: the server answers."""
    return Response(200, b"\n", TEXT_CONTENT_TYPE)


async def handle_version(_request: Request) -> Response:
    """The version of Headrace."""
    return Response(200, VERSION, TEXT_CONTENT_TYPE)


class InvocationsHandler:
    """Serves one model."""

    def __init__(self, predictor: Predictor) -> None:
        self._table_scorer = TableScorer(predictor)

    async def __call__(self, request: Request) -> Response:
        """The score and the decision of each row."""
        _require_json(request.header(b"content-type"))
        request_content = _parse_body(request.body)
        include = _parse_include({} if request_content.get("params") is None else request_content["params"])
        result = await self._table_scorer.score_columns(
            parse_columns(request_content), RequestContext.from_request(request), include
        )
        predictions = [
            {"score": score, "decision": decision, "version": version}
            for score, decision, version in zip(result.scores, result.decisions, result.versions, strict=True)
        ]
        response_content: dict[str, Any] = {"predictions": predictions}
        response_content |= {"degraded": result.degraded_reasons} if result.degraded_reasons else {}
        return Response(200, encode_json(response_content), headers=(result.timing.header,))


def _require_json(content_type: bytes | None) -> None:
    media_type = (content_type or b"application/json").split(b";")[0].strip().lower()
    if media_type == b"text/csv":
        raise UnsupportedMediaType(f"CSV has no types, and would have to be guessed. Send JSON: {EXAMPLE}.")
    if media_type not in {b"application/json", b"application/x-www-form-urlencoded"}:  # the latter is curl's default
        raise UnsupportedMediaType(
            f"The body is {media_type[:80].decode(errors='replace')}. Send application/json: {EXAMPLE}."
        )


def _parse_body(body: bytes) -> dict[str, Any]:
    content = parse_json(body, EXAMPLE)
    if (
        not isinstance(content, dict)
        or sum(input_format in content for input_format in INPUT_FORMATS) != 1
        or content.keys() - {*INPUT_FORMATS, "params"}
    ):
        raise BadRequest(
            f"The body has to have one of {', '.join(INPUT_FORMATS)}, and may have params. Write {EXAMPLE}."
        )
    return content


def _parse_include(params: Any) -> bool:
    if not isinstance(params, dict) or params.keys() - {"include"} or type(params.get("include", False)) is not bool:
        raise BadRequest(f'"params" is {short_json(params)}. Write {{"include": true}}, or leave it out.')
    return bool(params.get("include", False))


def parse_columns(content: dict[str, Any]) -> Columns:
    """The columns of a body, in any of the input formats."""
    (input_format,) = content.keys() - {"params"}
    data = content[input_format]
    if input_format == "dataframe_split":
        return _columns_from_split(data)
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _columns_from_records(data)
    if input_format != "dataframe_records" and isinstance(data, dict):
        return {name: _to_list(values) for name, values in data.items()}
    raise BadRequest(f'"{input_format}" is {short_json(data)}. Write {EXAMPLE}.')


def _columns_from_split(data: Any) -> Columns:
    names, rows = (data.get("columns"), data.get("data")) if isinstance(data, dict) else (None, None)
    if (
        not isinstance(names, list)
        or not isinstance(rows, list)
        or any(not isinstance(name, str) for name in names)
        or any(not isinstance(row, list) or len(row) != len(names) for row in rows)
        or len(set(names)) < len(names)
    ):
        raise BadRequest(f"dataframe_split has no columns with a row of values each. Write {EXAMPLE}.")
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def _columns_from_records(rows: Sequence[dict[str, Any]]) -> Columns:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _to_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]
