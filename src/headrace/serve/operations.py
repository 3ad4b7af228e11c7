"""What each route takes and gives, in the words of OpenAPI: the one place where it is told."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.operands import REQUEST
from headrace.declare.schema import Column, Kind
from headrace.declare.views import Feature, View
from headrace.serve.events import needed_by
from headrace.serve.tensors import DTYPES
from headrace.serve.tensors import TEXT as TENSOR_TEXT
from headrace.tiles.events import INTEGER_BITS

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
MOST_MILLIS = 10**14 - 1
MILLIS: Schema = {"type": "integer", "minimum": -MOST_MILLIS, "maximum": MOST_MILLIS}
SENT_MOMENT: Schema = {"anyOf": [MOMENT, {**MILLIS, "description": "epoch milliseconds"}]}
SENT: Mapping[Kind, Schema] = {**OF_KIND, Kind.DOUBLE: NUMBER, Kind.TIMESTAMP: SENT_MOMENT}
# A field of an event is read as the gate reads it: a text may be anything, and is the JSON of what is none.
WRITTEN_MOMENT: Schema = {"anyOf": [SENT_MOMENT, {"type": "string", "pattern": "^-?[0-9]{1,14}$"}]}
OF_EVENT: Mapping[Kind, Schema] = {**OF_KIND, Kind.STRING: ANY, Kind.TIMESTAMP: WRITTEN_MOMENT}
DAY_MINUTES = 24 * 60
MOST_ROWS = 1000
HTML, FORM = "text/html", "application/x-www-form-urlencoded"
PLAIN, METRICS, STREAMED = "text/plain", "text/plain; version=0.0.4", "text/event-stream"


class Parameter(NamedTuple):
    """What a query may say."""

    name: str
    schema: Schema
    is_needed: bool = False


class Operation(NamedTuple):
    """What a route does, what is sent to it, and what it answers; both are of JSON unless `sent` and `kind` say
    otherwise. `instead` are answers, by their status, of another shape or kind than they have elsewhere.
    """

    summary: str
    answer: Schema = ANY
    body: Schema | None = None
    parameters: tuple[Parameter, ...] = ()
    kind: str = "application/json"
    sent: str = "application/json"
    instead: Mapping[str, tuple[str, Schema]] = {}


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


def object_of(properties: Mapping[str, Schema], optional: Sequence[str] = (), is_closed: bool = False) -> Schema:
    """An object that has all of these, but for what is optional; one that is closed has no others."""
    needed = [name for name in properties if name not in optional]
    closed = {"additionalProperties": False} if is_closed else {}
    return {"type": "object", "properties": dict(properties), **({"required": needed} if needed else {}), **closed}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _features(view: View) -> Operation:
    key, fields = _key(view.entity), {c.name.removeprefix(REQUEST): or_null(_sent(c)) for c in view.requested}
    asked = object_of(
        {
            "keys": {**list_of(key), "maxItems": MOST_ROWS},
            "at": or_null(SENT_MOMENT),
            "request": object_of(fields, optional=list(fields)),
        },
        optional=["at", "request"],
        is_closed=True,
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
    parts = [_sent(column) for column in entity]
    if len(parts) == 1:
        return parts[0]
    listed = {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    return {"anyOf": [listed, object_of({column.name: _sent(column) for column in entity}, is_closed=True)]}


def _sent(column: Column, kinds: Mapping[Kind, Schema] = SENT) -> Schema:
    """What may be sent for a column; of integers, those that it holds."""
    if column.kind is not Kind.INTEGER:
        return kinds[column.kind]
    half = 1 << (INTEGER_BITS[column.type] - 1)
    return {**WHOLE, "minimum": -half, "maximum": half - 1}


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
    event = _event(model)
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
    either = {"anyOf": [event, {**list_of(event), "maxItems": MOST_ROWS}]}
    answer = {"anyOf": [scored, list_of(scored)]}
    return {
        f"/predict/{model.name}": Operation(f"The score of an event by {model.name}", answer, either, (include,)),
        f"/invocations/{model.name}": _invocations(model),
        f"/v2/models/{model.name}": Operation(f"What {model.name} takes and gives", MODEL_METADATA),
        f"/v2/models/{model.name}/ready": Operation(
            f"Whether {model.name} has a version that scores", MODEL_READY, instead={"503": (JSON, MODEL_READY)}
        ),
        f"/v2/models/{model.name}/infer": Operation(
            f"The scores of {model.name} by the Open Inference Protocol v2", INFERRED, TENSORS
        ),
    }


def _event(model: Model) -> Schema:
    """An event as the gate would read it; what the model reads is told, if only by null."""
    schema, needed = model.stream.schema, needed_by(model)
    fields = {column.name: or_null(_sent(column, OF_EVENT)) for column in schema}
    if model.stream.key in needed:
        fields[model.stream.key] = {"not": {"type": "null"}}
    return object_of(fields, [name for name in schema.names if name not in needed])


def _invocations(model: Model) -> Operation:
    params = or_null(object_of({"include": FLAG}, ["include"], is_closed=True))
    asked = {
        "oneOf": [object_of({way: one, "params": params}, ["params"], is_closed=True) for way, one in WAYS.items()]
    }
    one = object_of({"score": NUMBER, "decision": or_null(TEXT), "version": TEXT})
    answer = object_of({"predictions": list_of(one), "degraded": list_of(TEXT)}, ["degraded"])
    return Operation(f"The scores of {model.name} by MLflow's protocol", answer, asked)


JSON = "application/json"
ROWS: Schema = {**list_of({"type": "object", "minProperties": 1}), "minItems": 1, "maxItems": MOST_ROWS}
COLUMNS: Schema = {"type": "object", "minProperties": 1}
DATATYPES: Schema = {"enum": [*DTYPES, TENSOR_TEXT]}
SPLIT = object_of({"columns": {**list_of(TEXT), "uniqueItems": True}, "data": list_of({"type": "array"})})
WAYS: Mapping[str, Schema] = {
    "dataframe_split": SPLIT,
    "dataframe_records": ROWS,
    "instances": {"anyOf": [ROWS, COLUMNS]},
    "inputs": {"anyOf": [ROWS, COLUMNS]},
}
TENSOR = object_of({"name": TEXT, "datatype": DATATYPES, "shape": list_of(WHOLE), "data": ANY}, ["data"])
TENSORS = object_of(
    {"inputs": {**list_of(TENSOR), "minItems": 1}, "outputs": ANY, "id": TEXT, "parameters": {"type": "object"}},
    ["outputs", "id", "parameters"],
)
INFERRED = object_of(
    {"model_name": TEXT, "model_version": TEXT, "outputs": list_of(TENSOR), "id": TEXT, "parameters": ANY},
    ["id", "parameters"],
)
MODEL_METADATA = object_of(
    {"name": TEXT, "versions": list_of(TEXT), "platform": TEXT, "inputs": list_of(TENSOR), "outputs": list_of(TENSOR)}
)
SESSION = object_of({"session": FLAG})
MODEL_READY = object_of({"name": TEXT, "ready": FLAG, "error": TEXT}, ["error"])
SQL_ANSWER = object_of(
    {
        "columns": list_of(object_of({"name": TEXT, "type": TEXT})),
        "rows": list_of({"type": "array"}),
        "took_ms": NUMBER,
        "cut": FLAG,
    }
)
SQL_ASKED = object_of(
    {"sql": {"type": "string", "minLength": 1}, "limit": {"type": "integer", "minimum": 1, "maximum": 100_000}},
    ["limit"],
    is_closed=True,
)
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
MINUTES: Schema = {"type": "integer", "minimum": 1, "maximum": DAY_MINUTES}
FIXED: Mapping[str, Operation] = {
    "/openapi.json": Operation("This document", {"type": "object"}),
    "/sql": Operation("The answer to a query over the live tables and the lake; it only reads", SQL_ANSWER, SQL_ASKED),
    "/panels": Operation("The latest answers of saved queries", object_of({"panels": list_of(PANEL)})),
    "/live": Operation("Every number once a second, as server-sent events", kind=STREAMED),
    "/history": Operation(
        "What /live told in the last minutes", list_of(SNAPSHOT), None, (Parameter("minutes", MINUTES),)
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
        instead={"503": (JSON, READY)},
    ),
    "/ping": Operation("Whether the server answers, by MLflow's protocol", TEXT, kind=PLAIN),
    "/version": Operation("The version of Headrace", TEXT, kind=PLAIN),
    "/login": Operation(
        "A cookie for a browser, from a form with a token",
        body=object_of({"token": TEXT}),
        sent=FORM,
        instead={"200": ("", ANY), "303": (PLAIN, TEXT), "401": (HTML, TEXT)},
    ),
    "/logout": Operation("The end of a browser's session", SESSION),
    "/session": Operation("Whether a browser has a session", SESSION),
}
