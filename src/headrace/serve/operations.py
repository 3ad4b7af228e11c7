"""What each route takes and gives, in the words of OpenAPI: the one place where it is told."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.operands import REQUEST
from headrace.declare.schema import Column, Kind
from headrace.declare.views import Feature, View

Schema = Mapping[str, Any]

ANY: Schema = {}
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
WHOLE: Schema = {"type": "integer"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
# JSON has no word for some doubles: they are text.
DOUBLE: Schema = {"anyOf": [NUMBER, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
OF_KIND: Mapping[Kind, Schema] = {
    Kind.STRING: TEXT,
    Kind.BOOLEAN: FLAG,
    Kind.INTEGER: WHOLE,
    Kind.DOUBLE: DOUBLE,
    Kind.TIMESTAMP: MOMENT,
}
# What is sent may say a moment in epoch milliseconds as well.
SENT_MOMENT: Schema = {"anyOf": [MOMENT, {"type": "integer", "description": "epoch milliseconds"}]}
SENT: Mapping[Kind, Schema] = {**OF_KIND, Kind.TIMESTAMP: SENT_MOMENT}
PLAIN, METRICS, STREAMED = "text/plain", "text/plain; version=0.0.4", "text/event-stream"


class Parameter(NamedTuple):
    """What a query may say."""

    name: str
    schema: Schema
    is_needed: bool = False


class Operation(NamedTuple):
    """What a route does, what is sent to it, and what it answers; `answer` is of JSON unless `kind` says otherwise."""

    summary: str
    answer: Schema = ANY
    body: Schema | None = None
    parameters: tuple[Parameter, ...] = ()
    kind: str = "application/json"


def operations_of(app: App) -> dict[str, Operation]:
    """The operations of an app's server, by path."""
    found = dict(FIXED)
    for view in app.views:
        found[f"/features/{view.name}"] = _features(view)
    for model in app.models:
        found |= _of_model(model)
    if len(app.models) == 1:
        found["/invocations"] = _invocations(app.models[0])
    return found


def object_of(properties: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    """An object that has all of these, but for what is optional."""
    needed = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), **({"required": needed} if needed else {})}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _features(view: View) -> Operation:
    key = _key(view.entity)
    asked = object_of(
        {
            "keys": {**list_of(key), "maxItems": 1000},
            "at": SENT_MOMENT,
            "request": object_of({c.name.removeprefix(REQUEST): SENT[c.kind] for c in view.requested}),
        },
        optional=["at"] if view.requested else ["at", "request"],
    )
    row = _columns(view.entity, OF_KIND) | {
        "values": object_of(_outputs(view)),
        "event_time": or_null(MOMENT),
        "age_ms": or_null(WHOLE),
    }
    answer = object_of({"as_of": MOMENT, "rows": list_of(object_of(row))})
    return Operation(f"The features of {view.name}, by {', '.join(view.by)}", answer, asked)


def _key(entity: Sequence[Column]) -> Schema:
    """One column: its value. Several: a list in their order, or an object by name."""
    parts = [SENT[column.kind] for column in entity]
    if len(parts) == 1:
        return parts[0]
    listed = {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    return {"anyOf": [listed, object_of(_columns(entity, SENT))]}


def _columns(columns: Sequence[Column], kinds: Mapping[Kind, Schema]) -> dict[str, Schema]:
    return {column.name: kinds[column.kind] for column in columns}


def _outputs(view: View) -> dict[str, Schema]:
    derived = {one.name: or_null(OF_KIND[one.kind]) for one in view.derived}
    return {feature.name: _output(feature) for feature in view.features} | derived


def _output(feature: Feature) -> Schema:
    aggregate = feature.aggregate
    if aggregate.gives_a_map:
        return {"type": "object", "additionalProperties": WHOLE}
    if aggregate.gives_a_list:
        return or_null(list_of(OF_KIND[aggregate.kind] if aggregate.kind else ANY))
    if aggregate.function in {"count", "distinct"}:
        return WHOLE
    is_kept = aggregate.function in {"min", "max", "first", "last"} and aggregate.kind is not None
    return or_null(OF_KIND[aggregate.kind] if is_kept and aggregate.kind else DOUBLE)


def _of_model(model: Model) -> dict[str, Operation]:
    event = object_of({c.name: or_null(SENT[c.kind]) for c in model.stream.schema}, model.stream.schema.names)
    scored = object_of(
        {
            "score": NUMBER,
            "decision": or_null(TEXT),
            "model": {"const": model.name},
            "version": TEXT,
            "features": {"type": "object"},
            "age_ms": or_null(WHOLE),
            "degraded": list_of(TEXT),
        }
    )
    include = Parameter("include", {"enum": ["true", "false"]})
    either = {"anyOf": [event, {**list_of(event), "maxItems": 1000}]}
    answer = {"anyOf": [scored, list_of(scored)]}
    return {
        f"/predict/{model.name}": Operation(f"The score of an event by {model.name}", answer, either, (include,)),
        f"/invocations/{model.name}": _invocations(model),
        f"/v2/models/{model.name}": Operation(f"What {model.name} takes and gives", MODEL_METADATA),
        f"/v2/models/{model.name}/ready": Operation(f"Whether {model.name} has a version that scores", MODEL_READY),
        f"/v2/models/{model.name}/infer": Operation(
            f"The scores of {model.name} by the Open Inference Protocol v2", INFERRED, TENSORS
        ),
    }


def _invocations(model: Model) -> Operation:
    ways = dict.fromkeys(("dataframe_split", "dataframe_records", "instances", "inputs"), ANY)
    asked = {"type": "object", "properties": {**ways, "params": object_of({"include": FLAG}, ["include"])}}
    one = object_of({"score": NUMBER, "decision": or_null(TEXT), "version": TEXT})
    answer = object_of({"predictions": list_of(one), "degraded": list_of(TEXT)}, ["degraded"])
    return Operation(f"The scores of {model.name} by MLflow's protocol", answer, asked)


TENSOR = object_of({"name": TEXT, "datatype": TEXT, "shape": list_of(WHOLE), "data": ANY}, ["data"])
TENSORS = object_of(
    {"inputs": list_of(TENSOR), "outputs": ANY, "id": TEXT, "parameters": ANY}, ["outputs", "id", "parameters"]
)
INFERRED = object_of(
    {"model_name": TEXT, "model_version": TEXT, "outputs": list_of(TENSOR), "id": TEXT, "parameters": ANY},
    ["id", "parameters"],
)
MODEL_METADATA = object_of(
    {"name": TEXT, "versions": list_of(TEXT), "platform": TEXT, "inputs": list_of(TENSOR), "outputs": list_of(TENSOR)}
)
MODEL_READY = object_of({"name": TEXT, "ready": FLAG, "error": TEXT}, ["error"])
SQL_ANSWER = object_of(
    {
        "columns": list_of(object_of({"name": TEXT, "type": TEXT})),
        "rows": list_of({"type": "array"}),
        "took_ms": NUMBER,
        "cut": FLAG,
    }
)
SQL_ASKED = object_of({"sql": TEXT, "limit": {"type": "integer", "minimum": 1}}, ["limit"])
HOT_KEY = object_of(
    {
        "streams": list_of(TEXT),
        "view": or_null(TEXT),
        "rank": WHOLE,
        "key": TEXT,
        "at_least": NUMBER,
        "at_most": NUMBER,
        "events_per_second": NUMBER,
        "partition": or_null(WHOLE),
        "partitions": WHOLE,
        "salt": WHOLE,
        "is_hot": FLAG,
    }
)
SPREAD = object_of(
    {"topic": TEXT, "partitions": WHOLE, "records": WHOLE, "busiest": WHOLE, "share": NUMBER, "skew": NUMBER}
)
HOT = object_of({"keys": list_of(HOT_KEY), "topics": list_of(SPREAD), "advice": list_of(TEXT)})
PANEL = object_of({"name": TEXT, "sql": TEXT, "at": NUMBER, "error": or_null(TEXT), "answer": or_null(SQL_ANSWER)})
SNAPSHOT = object_of({"at": NUMBER, "samples": list_of({"type": "array"})})
OUTAGE = object_of({"what": TEXT, "since": or_null(MOMENT), "why": TEXT, "affects": TEXT})
READY_DETAILS = {
    "answers": FLAG,
    "fresh": FLAG,
    "complete": FLAG,
    "missing": list_of(TEXT),
    "down": list_of(OUTAGE),
}
READY = object_of({"ready": FLAG, **READY_DETAILS}, list(READY_DETAILS))
FIXED: Mapping[str, Operation] = {
    "/openapi.json": Operation("This document", {"type": "object"}),
    "/sql": Operation("The answer to a query over the live tables and the lake; it only reads", SQL_ANSWER, SQL_ASKED),
    "/panels": Operation("The latest answers of saved queries", object_of({"panels": list_of(PANEL)})),
    "/live": Operation("Every number once a second, as server-sent events", kind=STREAMED),
    "/history": Operation(
        "What /live told in the last minutes", list_of(SNAPSHOT), None, (Parameter("minutes", WHOLE),)
    ),
    "/metrics": Operation("Numbers for Prometheus", TEXT, kind=METRICS),
    "/hot": Operation("The heaviest keys, and how evenly partitions are used", HOT),
    "/v2": Operation("Who answers", object_of({"name": TEXT, "version": TEXT, "extensions": list_of(TEXT)})),
    "/v2/health/live": Operation("Whether the server answers", object_of({"live": FLAG})),
    "/v2/health/ready": Operation(
        "Whether the server answers, is fresh, or everything runs; 503 says what is missing and what is down",
        READY,
        None,
        (Parameter("level", {"enum": ["answers", "fresh", "complete"]}),),
    ),
    "/ping": Operation("Whether the server answers, by MLflow's protocol", TEXT, kind=PLAIN),
    "/version": Operation("The version of Headrace", TEXT, kind=PLAIN),
    "/login": Operation("A token for a browser's cookie, from a form", TEXT, kind="text/html"),
    "/logout": Operation("The end of a browser's session"),
    "/session": Operation("Whether a browser has a session", {"type": "object"}),
}
