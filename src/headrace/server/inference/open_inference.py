"""The Open Inference Protocol v2 of Triton and KServe: `GET /v2/models/MODEL`, `POST …/infer`."""

from importlib.metadata import version
from typing import Any

import orjson

from headrace.declare.streams.schema import Kind
from headrace.server.features.entity_keys import short_json
from headrace.server.http.responses import BadRequest, Response, ServiceUnavailable, json_response
from headrace.server.http.routing import Request
from headrace.server.inference.predictor import Predictor, RequestContext, ScoringResult
from headrace.server.inference.request_columns import TableScorer
from headrace.server.inference.tensors import BYTES_DATATYPE, encode_tensor, parse_inference_request

SERVER_METADATA = {"name": "headrace", "version": version("headrace"), "extensions": ["binary_tensor_data"]}
JSON_LENGTH_HEADER = b"inference-header-content-length"
BINARY_TYPE = b"application/octet-stream"
OUTPUT_DATATYPES = {"score": "FP64", "decision": BYTES_DATATYPE}
DATATYPES_BY_KIND = {
    Kind.STRING: BYTES_DATATYPE,
    Kind.BOOLEAN: "BOOL",
    Kind.INTEGER: "INT64",
    Kind.DOUBLE: "FP64",
    Kind.TIMESTAMP: BYTES_DATATYPE,
}


async def handle_server_metadata(_request: Request) -> Response:
    """The server's name and version."""
    return json_response(SERVER_METADATA)


class InferenceHandler:
    """Serves one model."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor, self._table_scorer = predictor, TableScorer(predictor)
        self._model_name = predictor.model.name

    async def handle_metadata(self, _request: Request) -> Response:
        """The model's inputs and outputs; the inputs are the columns of its stream."""
        live_versions = await self._predictor.model_resolver.resolve()
        return json_response(
            {
                "name": self._model_name,
                "versions": [live_versions.champion.version],
                "platform": "onnxruntime_onnx",
                "inputs": [
                    _describe_tensor(column.name, DATATYPES_BY_KIND[column.kind])
                    for column in self._predictor.model.stream.schema
                ],
                "outputs": [_describe_tensor(name, datatype) for name, datatype in OUTPUT_DATATYPES.items()],
            }
        )

    async def handle_ready(self, _request: Request) -> Response:
        """Ready once there is a version that scores."""
        try:
            await self._predictor.model_resolver.resolve()
        except ServiceUnavailable as problem:
            return json_response({"name": self._model_name, "ready": False, "error": str(problem)}, 503)
        return json_response({"name": self._model_name, "ready": True})

    async def handle_infer(self, request: Request) -> Response:
        """The score and the decision of each row of the inputs."""
        inference_request = parse_inference_request(request.body, request.header(JSON_LENGTH_HEADER))
        parameters = inference_request.content.get("parameters", {})
        if not isinstance(parameters, dict) or type(parameters.get("include", False)) is not bool:
            raise BadRequest('"parameters" has an include that is neither true nor false.')
        if not isinstance(inference_request.content.get("id", ""), str):
            raise BadRequest(f'"id" is {short_json(inference_request.content["id"])}. Write a text, or leave it out.')
        requested_outputs = _requested_outputs(inference_request.content, bool(parameters.get("binary_data_output")))
        result = await self._table_scorer.score_columns(
            inference_request.columns, RequestContext.from_request(request), parameters.get("include", False)
        )
        return self._to_response(result, inference_request.content, requested_outputs)

    def _to_response(
        self, result: ScoringResult, request_content: dict[str, Any], requested_outputs: dict[str, bool]
    ) -> Response:
        values: dict[str, Any] = {"score": result.scores, "decision": result.decisions}
        binary_outputs = {
            name: encode_tensor(OUTPUT_DATATYPES[name], values[name])
            for name, is_binary in requested_outputs.items()
            if is_binary
        }
        outputs = [
            {"name": name, "datatype": OUTPUT_DATATYPES[name], "shape": [len(result.scores)]}
            | ({"parameters": {"binary_data_size": len(binary_outputs[name])}} if is_binary else {"data": values[name]})
            for name, is_binary in requested_outputs.items()
        ]
        response_content: dict[str, Any] = {
            "model_name": self._model_name,
            "model_version": ", ".join(dict.fromkeys(result.versions)),
            "outputs": outputs,
        }
        response_content |= {"id": request_content["id"]} if "id" in request_content else {}
        response_content |= (
            {"parameters": {"degraded": ", ".join(result.degraded_reasons)}} if result.degraded_reasons else {}
        )
        body = orjson.dumps(response_content)
        if not binary_outputs:
            return Response(200, body, headers=(result.timing.header,))
        headers = (result.timing.header, (JSON_LENGTH_HEADER, b"%d" % len(body)))
        return Response(200, body + b"".join(binary_outputs.values()), BINARY_TYPE, headers)


def _describe_tensor(name: str, datatype: str) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [-1]}


def _requested_outputs(request_content: dict[str, Any], is_binary_default: bool) -> dict[str, bool]:
    """The requested outputs, and whether each is binary."""
    outputs = request_content.get("outputs") or [{"name": name} for name in OUTPUT_DATATYPES]
    requested_outputs = {}
    for output in outputs if isinstance(outputs, list) else [outputs]:
        name = output.get("name") if isinstance(output, dict) else None
        if not isinstance(name, str) or name not in OUTPUT_DATATYPES:
            raise BadRequest(f"There is no such output. Ask for {' and '.join(OUTPUT_DATATYPES)}.")
        parameters = output.get("parameters", {})
        requested_outputs[name] = (
            bool(parameters.get("binary_data", is_binary_default))
            if isinstance(parameters, dict)
            else is_binary_default
        )
    return requested_outputs
