"""The Open Inference Protocol v2, as Triton and KServe speak it: `GET /v2/models/MODEL`, `POST …/infer`."""

from importlib.metadata import version
from typing import Any

import orjson

from headrace.declare.schema import Kind
from headrace.serve.answers import Answer, BadRequest, Unavailable, json_answer
from headrace.serve.http import Request
from headrace.serve.keys import shown
from headrace.serve.predictor import Asked, Predictor, Scored
from headrace.serve.tables import TableScorer
from headrace.serve.tensors import TEXT, packed, read_inputs

SERVER = {"name": "headrace", "version": version("headrace"), "extensions": ["binary_tensor_data"]}
JSON_LENGTH = b"inference-header-content-length"
BINARY_TYPE = b"application/octet-stream"
OUTPUTS = {"score": "FP64", "decision": TEXT}
DATATYPES = {Kind.STRING: TEXT, Kind.BOOLEAN: "BOOL", Kind.INTEGER: "INT64", Kind.DOUBLE: "FP64", Kind.TIMESTAMP: TEXT}


async def server_metadata(_request: Request) -> Answer:
    """Who answers."""
    return json_answer(SERVER)


class Inference:
    """Answers for one model."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor, self._table = predictor, TableScorer(predictor)
        self._name = predictor.model.name

    async def metadata(self, _request: Request) -> Answer:
        """What the model takes and gives; the inputs are the columns of its stream."""
        standing = await self._predictor.contenders.standing()
        return json_answer(
            {
                "name": self._name,
                "versions": [standing.champion.version],
                "platform": "onnxruntime_onnx",
                "inputs": [_tensor(one.name, DATATYPES[one.kind]) for one in self._predictor.model.stream.schema],
                "outputs": [_tensor(name, datatype) for name, datatype in OUTPUTS.items()],
            }
        )

    async def ready(self, _request: Request) -> Answer:
        """Ready once there is a version that scores."""
        try:
            await self._predictor.contenders.standing()
        except Unavailable as problem:
            return json_answer({"name": self._name, "ready": False, "error": str(problem)}, 503)
        return json_answer({"name": self._name, "ready": True})

    async def infer(self, request: Request) -> Answer:
        """The score and the decision of each row of the inputs."""
        asked = read_inputs(request.body, request.header(JSON_LENGTH))
        parameters = asked.content.get("parameters", {})
        if not isinstance(parameters, dict) or type(parameters.get("include", False)) is not bool:
            raise BadRequest('"parameters" has an include that is neither true nor false.')
        if not isinstance(asked.content.get("id", ""), str):
            raise BadRequest(f'"id" is {shown(asked.content["id"])}. Write a text, or leave it out.')
        wanted = _wanted(asked.content, bool(parameters.get("binary_data_output")))
        scored = await self._table.scored(asked.columns, Asked.by(request), parameters.get("include", False))
        return self._answer(scored, asked.content, wanted)

    def _answer(self, scored: Scored, asked: dict[str, Any], wanted: dict[str, bool]) -> Answer:
        values: dict[str, Any] = {"score": scored.scores, "decision": scored.decisions}
        tail = {name: packed(OUTPUTS[name], values[name]) for name, is_binary in wanted.items() if is_binary}
        outputs = [
            {"name": name, "datatype": OUTPUTS[name], "shape": [len(scored.scores)]}
            | ({"parameters": {"binary_data_size": len(tail[name])}} if is_binary else {"data": values[name]})
            for name, is_binary in wanted.items()
        ]
        said: dict[str, Any] = {
            "model_name": self._name,
            "model_version": ", ".join(dict.fromkeys(scored.versions)),
            "outputs": outputs,
        }
        said |= {"id": asked["id"]} if "id" in asked else {}
        said |= {"parameters": {"degraded": ", ".join(scored.lacking)}} if scored.lacking else {}
        body = orjson.dumps(said)
        if not tail:
            return Answer(200, body, headers=(scored.timing.header,))
        headers = (scored.timing.header, (JSON_LENGTH, b"%d" % len(body)))
        return Answer(200, body + b"".join(tail.values()), BINARY_TYPE, headers)


def _tensor(name: str, datatype: str) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [-1]}


def _wanted(asked: dict[str, Any], binary: bool) -> dict[str, bool]:
    """The outputs that are asked for, and whether each is to come in bytes."""
    outputs = asked.get("outputs") or [{"name": name} for name in OUTPUTS]
    wanted = {}
    for one in outputs if isinstance(outputs, list) else [outputs]:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or name not in OUTPUTS:
            raise BadRequest(f"There is no such output. Ask for {' and '.join(OUTPUTS)}.")
        parameters = one.get("parameters", {})
        wanted[name] = bool(parameters.get("binary_data", binary)) if isinstance(parameters, dict) else binary
    return wanted
