"""MLflow's scoring protocol: POST /invocations, GET /ping and /version."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from headrace.serve.answers import Answer, BadRequest, WrongType, encode_json, json_of
from headrace.serve.http import Request
from headrace.serve.keys import shown
from headrace.serve.predictor import Asked, Predictor
from headrace.serve.tables import Columns, TableScorer

VERSION = version("headrace").encode()
TEXT_TYPE = b"text/plain"
WAYS = ("dataframe_split", "dataframe_records", "instances", "inputs")
EXAMPLE = '{"dataframe_split": {"columns": ["card", "amount"], "data": [["c1", 90]]}}'


async def ping(_request: Request) -> Answer:
    """The server answers, so it is alive."""
    return Answer(200, b"\n", TEXT_TYPE)


async def own_version(_request: Request) -> Answer:
    """The version of Headrace."""
    return Answer(200, VERSION, TEXT_TYPE)


class Invocations:
    """Answers for one model."""

    def __init__(self, predictor: Predictor) -> None:
        self._table = TableScorer(predictor)

    async def __call__(self, request: Request) -> Answer:
        """The score and the decision of each row."""
        _require_json(request.header(b"content-type"))
        asked = _parsed(request.body)
        include = _include({} if asked.get("params") is None else asked["params"])
        scored = await self._table.scored(columns_of(asked), Asked.by(request), include)
        predictions = [
            {"score": score, "decision": decision, "version": version}
            for score, decision, version in zip(scored.scores, scored.decisions, scored.versions, strict=True)
        ]
        said: dict[str, Any] = {"predictions": predictions}
        said |= {"degraded": scored.lacking} if scored.lacking else {}
        return Answer(200, encode_json(said), headers=(scored.timing.header,))


def _require_json(content_type: bytes | None) -> None:
    given = (content_type or b"application/json").split(b";")[0].strip().lower()
    if given == b"text/csv":
        raise WrongType(f"CSV has no types, and would have to be guessed. Send JSON: {EXAMPLE}.")
    if given not in {b"application/json", b"application/x-www-form-urlencoded"}:  # the latter is what curl says
        raise WrongType(f"The body is {given[:80].decode(errors='replace')}. Send application/json: {EXAMPLE}.")


def _parsed(body: bytes) -> dict[str, Any]:
    asked = json_of(body, EXAMPLE)
    if not isinstance(asked, dict) or sum(way in asked for way in WAYS) != 1 or asked.keys() - {*WAYS, "params"}:
        raise BadRequest(f"The body has to have one of {', '.join(WAYS)}, and may have params. Write {EXAMPLE}.")
    return asked


def _include(params: Any) -> bool:
    if not isinstance(params, dict) or params.keys() - {"include"} or type(params.get("include", False)) is not bool:
        raise BadRequest(f'"params" is {shown(params)}. Write {{"include": true}}, or leave it out.')
    return bool(params.get("include", False))


def columns_of(asked: dict[str, Any]) -> Columns:
    """The columns of a body, whichever way they are written."""
    (way,) = asked.keys() - {"params"}
    written = asked[way]
    if way == "dataframe_split":
        return _split(written)
    if isinstance(written, list) and all(isinstance(row, dict) for row in written):
        return _records(written)
    if way != "dataframe_records" and isinstance(written, dict):
        return {name: _listed(values) for name, values in written.items()}
    raise BadRequest(f'"{way}" is {shown(written)}. Write {EXAMPLE}.')


def _split(written: Any) -> Columns:
    names, rows = (written.get("columns"), written.get("data")) if isinstance(written, dict) else (None, None)
    if (
        not isinstance(names, list)
        or not isinstance(rows, list)
        or any(not isinstance(name, str) for name in names)
        or any(not isinstance(row, list) or len(row) != len(names) for row in rows)
        or len(set(names)) < len(names)
    ):
        raise BadRequest(f"dataframe_split has no columns with a row of values each. Write {EXAMPLE}.")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _records(rows: Sequence[dict[str, Any]]) -> Columns:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]
