"""The OpenAPI operation of each route: parameters, request body and responses."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.declare.app import App
from headrace.declare.features.aggregate_rules import Shape
from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import Feature, View
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Column, Kind
from headrace.server.inference.request_events import required_columns
from headrace.server.inference.tensors import BYTES_DATATYPE as TENSOR_TEXT
from headrace.server.inference.tensors import DTYPES
from headrace.tiles.events.event_parser import INTEGER_BITS

JsonSchema = Mapping[str, Any]

ANY: JsonSchema = {}
TEXT: JsonSchema = {"type": "string"}
NUMBER: JsonSchema = {"type": "number"}
BOOLEAN: JsonSchema = {"type": "boolean"}
INTEGER: JsonSchema = {"type": "integer"}
DATE_TIME: JsonSchema = {"type": "string", "format": "date-time"}
# JSON has no NaN or infinities: they are text.
DOUBLE: JsonSchema = {"anyOf": [NUMBER, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
RESPONSE_SCHEMAS: Mapping[Kind, JsonSchema] = {
    Kind.STRING: TEXT,
    Kind.BOOLEAN: BOOLEAN,
    Kind.INTEGER: INTEGER,
    Kind.DOUBLE: DOUBLE,
    Kind.TIMESTAMP: DATE_TIME,
}
# A request may give a time in epoch milliseconds as well.
MAX_EPOCH_MILLIS = 10**14 - 1
EPOCH_MILLIS: JsonSchema = {"type": "integer", "minimum": -MAX_EPOCH_MILLIS, "maximum": MAX_EPOCH_MILLIS}
REQUEST_TIME: JsonSchema = {"anyOf": [DATE_TIME, {**EPOCH_MILLIS, "description": "epoch milliseconds"}]}
REQUEST_SCHEMAS: Mapping[Kind, JsonSchema] = {**RESPONSE_SCHEMAS, Kind.DOUBLE: NUMBER, Kind.TIMESTAMP: REQUEST_TIME}
# A field of an event is read like at the gate: a string column accepts any value, and stores a non-string as JSON.
EVENT_TIME: JsonSchema = {"anyOf": [REQUEST_TIME, {"type": "string", "pattern": "^-?[0-9]{1,14}$"}]}
EVENT_SCHEMAS: Mapping[Kind, JsonSchema] = {**RESPONSE_SCHEMAS, Kind.STRING: ANY, Kind.TIMESTAMP: EVENT_TIME}
DAY_MINUTES = 24 * 60
MAX_ROWS = 1000
HTML_TYPE, FORM_TYPE = "text/html", "application/x-www-form-urlencoded"
PLAIN_TYPE, METRICS_TYPE, EVENT_STREAM_TYPE = "text/plain", "text/plain; version=0.0.4", "text/event-stream"


class QueryParameter(NamedTuple):
    """A parameter of the query string."""

    name: str
    schema: JsonSchema
    is_required: bool = False


class OpenApiOperation(NamedTuple):
    """A route's summary, request and response; both are JSON unless `request_type` and `response_type` differ.

    `other_responses` has, by status, responses whose type or schema differs from the usual one.
    """

    summary: str
    response: JsonSchema = ANY
    request_body: JsonSchema | None = None
    parameters: tuple[QueryParameter, ...] = ()
    response_type: str = "application/json"
    request_type: str = "application/json"
    other_responses: Mapping[str, tuple[str, JsonSchema]] = {}


def describe_operations(app: App) -> dict[str, OpenApiOperation]:
    """The operations of an app's server, by path."""
    operations = dict(FIXED_OPERATIONS)
    for view in app.views:
        operations[f"/features/{view.name}"] = _features_operation(view)
    for model in app.models:
        operations |= _model_operations(model)
    if len(app.models) == 1:
        operations["/invocations"] = _invocations_operation(app.models[0])
    return operations


def object_schema(
    properties: Mapping[str, JsonSchema], optional: Sequence[str] = (), is_closed: bool = False
) -> JsonSchema:
    """The schema of an object; all properties are required except `optional`, and a closed one allows no others."""
    required = [name for name in properties if name not in optional]
    closed_fields = {"additionalProperties": False} if is_closed else {}
    return {
        "type": "object",
        "properties": dict(properties),
        **({"required": required} if required else {}),
        **closed_fields,
    }


def list_schema(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def nullable(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "null"}]}


def _features_operation(view: View) -> OpenApiOperation:
    key_schema, request_fields = (
        _key_schema(view.entity),
        {
            column.name.removeprefix(REQUEST_PREFIX): nullable(_request_schema(column))
            for column in view.request_columns
        },
    )
    request_body = object_schema(
        {
            "keys": {**list_schema(key_schema), "maxItems": MAX_ROWS},
            "at": nullable(REQUEST_TIME),
            "request": object_schema(request_fields, optional=list(request_fields)),
        },
        optional=["at", "request"],
        is_closed=True,
    )
    row = _column_schemas(view.entity, RESPONSE_SCHEMAS) | {
        "values": object_schema(_output_schemas(view)),
        "event_time": nullable(DATE_TIME),
        "age_ms": nullable(INTEGER),
    }
    response = object_schema({"as_of": DATE_TIME, "rows": list_schema(object_schema(row))})
    return OpenApiOperation(f"The features of {view.name}, by {', '.join(view.by)}", response, request_body)


def _key_schema(entity: Sequence[Column]) -> JsonSchema:
    """One column: its value. Several: a list in their order, or an object by name."""
    schemas = [_request_schema(column) for column in entity]
    if len(schemas) == 1:
        return schemas[0]
    list_form = {"type": "array", "prefixItems": schemas, "minItems": len(schemas), "maxItems": len(schemas)}
    return {
        "anyOf": [list_form, object_schema({column.name: _request_schema(column) for column in entity}, is_closed=True)]
    }


def _request_schema(column: Column, schemas: Mapping[Kind, JsonSchema] = REQUEST_SCHEMAS) -> JsonSchema:
    """The schema of a column in a request; integers have the bounds of their type."""
    if column.kind is not Kind.INTEGER:
        return schemas[column.kind]
    bound = 1 << (INTEGER_BITS[column.type] - 1)
    return {**INTEGER, "minimum": -bound, "maximum": bound - 1}


def _column_schemas(columns: Sequence[Column], schemas: Mapping[Kind, JsonSchema]) -> dict[str, JsonSchema]:
    return {column.name: schemas[column.kind] for column in columns}


def _output_schemas(view: View) -> dict[str, JsonSchema]:
    derived_schemas = {
        derived_feature.name: nullable(RESPONSE_SCHEMAS[derived_feature.kind])
        for derived_feature in view.on_demand_features
    }
    return {feature.name: _output_schema(feature) for feature in view.features} | derived_schemas


def _output_schema(feature: Feature) -> JsonSchema:
    result = feature.aggregate.result_type
    if result.shape is Shape.MAP:
        return {"type": "object", "additionalProperties": INTEGER}
    schema = DOUBLE if result.is_unbounded else RESPONSE_SCHEMAS[result.kind]
    if result.shape is Shape.LIST:
        schema = list_schema(schema)
    return nullable(schema) if result.is_nullable else schema


def _model_operations(model: Model) -> dict[str, OpenApiOperation]:
    event = _event_schema(model)
    prediction = object_schema(
        {
            "score": NUMBER,
            "decision": nullable(TEXT),
            "model": {"const": model.name},
            "version": TEXT,
            "features": {"type": "object"},
            "age_ms": nullable(INTEGER),
            "degraded": list_schema(TEXT),
        }
    )
    include = QueryParameter("include", {"enum": ["true", "false"]})
    request_body = {"anyOf": [event, {**list_schema(event), "maxItems": MAX_ROWS}]}
    response = {"anyOf": [prediction, list_schema(prediction)]}
    return {
        f"/predict/{model.name}": OpenApiOperation(
            f"The score of an event by {model.name}", response, request_body, (include,)
        ),
        f"/invocations/{model.name}": _invocations_operation(model),
        f"/v2/models/{model.name}": OpenApiOperation(f"What {model.name} takes and gives", MODEL_METADATA),
        f"/v2/models/{model.name}/ready": OpenApiOperation(
            f"Whether {model.name} has a version that scores",
            MODEL_READY,
            other_responses={"503": (JSON_TYPE, MODEL_READY)},
        ),
        f"/v2/models/{model.name}/infer": OpenApiOperation(
            f"The scores of {model.name} by the Open Inference Protocol v2", INFERENCE_RESPONSE, INFERENCE_REQUEST
        ),
    }


def _event_schema(model: Model) -> JsonSchema:
    """The schema of an event as the gate reads it; columns that the model reads are required, but may be null."""
    schema, required = model.stream.schema, required_columns(model)
    properties = {column.name: nullable(_request_schema(column, EVENT_SCHEMAS)) for column in schema}
    if model.stream.key in required:
        properties[model.stream.key] = {"not": {"type": "null"}}
    return object_schema(properties, [name for name in schema.names if name not in required])


def _invocations_operation(model: Model) -> OpenApiOperation:
    params = nullable(object_schema({"include": BOOLEAN}, ["include"], is_closed=True))
    request_body = {
        "oneOf": [
            object_schema({input_format: entry_schema, "params": params}, ["params"], is_closed=True)
            for input_format, entry_schema in INPUT_FORMATS.items()
        ]
    }
    one = object_schema({"score": NUMBER, "decision": nullable(TEXT), "version": TEXT})
    response = object_schema({"predictions": list_schema(one), "degraded": list_schema(TEXT)}, ["degraded"])
    return OpenApiOperation(f"The scores of {model.name} by MLflow's protocol", response, request_body)


JSON_TYPE = "application/json"
ROWS: JsonSchema = {**list_schema({"type": "object", "minProperties": 1}), "minItems": 1, "maxItems": MAX_ROWS}
COLUMNS: JsonSchema = {"type": "object", "minProperties": 1}
DATATYPES: JsonSchema = {"enum": [*DTYPES, TENSOR_TEXT]}
SPLIT = object_schema({"columns": {**list_schema(TEXT), "uniqueItems": True}, "data": list_schema({"type": "array"})})
INPUT_FORMATS: Mapping[str, JsonSchema] = {
    "dataframe_split": SPLIT,
    "dataframe_records": ROWS,
    "instances": {"anyOf": [ROWS, COLUMNS]},
    "inputs": {"anyOf": [ROWS, COLUMNS]},
}
TENSOR = object_schema({"name": TEXT, "datatype": DATATYPES, "shape": list_schema(INTEGER), "data": ANY}, ["data"])
INFERENCE_REQUEST = object_schema(
    {"inputs": {**list_schema(TENSOR), "minItems": 1}, "outputs": ANY, "id": TEXT, "parameters": {"type": "object"}},
    ["outputs", "id", "parameters"],
)
INFERENCE_RESPONSE = object_schema(
    {"model_name": TEXT, "model_version": TEXT, "outputs": list_schema(TENSOR), "id": TEXT, "parameters": ANY},
    ["id", "parameters"],
)
MODEL_METADATA = object_schema(
    {
        "name": TEXT,
        "versions": list_schema(TEXT),
        "platform": TEXT,
        "inputs": list_schema(TENSOR),
        "outputs": list_schema(TENSOR),
    }
)
SESSION = object_schema({"session": BOOLEAN})
MODEL_READY = object_schema({"name": TEXT, "ready": BOOLEAN, "error": TEXT}, ["error"])
SQL_ANSWER = object_schema(
    {
        "columns": list_schema(object_schema({"name": TEXT, "type": TEXT})),
        "rows": list_schema({"type": "array"}),
        "took_ms": NUMBER,
        "cut": BOOLEAN,
    }
)
SQL_REQUEST = object_schema(
    {"sql": {"type": "string", "minLength": 1}, "limit": {"type": "integer", "minimum": 1, "maximum": 100_000}},
    ["limit"],
    is_closed=True,
)
HOT_KEY = object_schema(
    {
        "streams": list_schema(TEXT),
        "view": nullable(TEXT),
        "rank": INTEGER,
        "key": TEXT,
        "at_least": NUMBER,
        "at_most": NUMBER,
        "events_per_second": NUMBER,
        "partition": nullable(INTEGER),
        "partitions": INTEGER,
        "salt": INTEGER,
        "is_hot": BOOLEAN,
    }
)
PARTITION_SKEW = object_schema(
    {"topic": TEXT, "partitions": INTEGER, "records": INTEGER, "busiest": INTEGER, "share": NUMBER, "skew": NUMBER}
)
HOT_KEY_REPORT = object_schema(
    {"keys": list_schema(HOT_KEY), "topics": list_schema(PARTITION_SKEW), "advice": list_schema(TEXT)}
)
PANEL = object_schema(
    {"name": TEXT, "sql": TEXT, "at": NUMBER, "error": nullable(TEXT), "answer": nullable(SQL_ANSWER)}
)
SNAPSHOT = object_schema({"at": NUMBER, "samples": list_schema({"type": "array"})})
OUTAGE = object_schema({"what": TEXT, "since": nullable(DATE_TIME), "why": TEXT, "affects": TEXT})
READY_DETAILS = {
    "answers": BOOLEAN,
    "fresh": BOOLEAN,
    "complete": BOOLEAN,
    "missing": list_schema(TEXT),
    "down": list_schema(OUTAGE),
}
READY = object_schema({"ready": BOOLEAN, **READY_DETAILS}, list(READY_DETAILS))
MINUTES: JsonSchema = {"type": "integer", "minimum": 1, "maximum": DAY_MINUTES}
FIXED_OPERATIONS: Mapping[str, OpenApiOperation] = {
    "/openapi.json": OpenApiOperation("This document", {"type": "object"}),
    "/sql": OpenApiOperation(
        "The answer to a query over the live tables and the lake; it only reads", SQL_ANSWER, SQL_REQUEST
    ),
    "/panels": OpenApiOperation("The latest answers of saved queries", object_schema({"panels": list_schema(PANEL)})),
    "/live": OpenApiOperation("Every number once a second, as server-sent events", response_type=EVENT_STREAM_TYPE),
    "/history": OpenApiOperation(
        "What /live told in the last minutes", list_schema(SNAPSHOT), None, (QueryParameter("minutes", MINUTES),)
    ),
    "/metrics": OpenApiOperation("Numbers for Prometheus", TEXT, response_type=METRICS_TYPE),
    "/hot": OpenApiOperation("The heaviest keys, and how evenly partitions are used", HOT_KEY_REPORT),
    "/v2": OpenApiOperation(
        "Who answers", object_schema({"name": TEXT, "version": TEXT, "extensions": list_schema(TEXT)})
    ),
    "/v2/health/live": OpenApiOperation("Whether the server answers", object_schema({"live": BOOLEAN})),
    "/v2/health/ready": OpenApiOperation(
        "Whether the server answers, is fresh, or everything runs; 503 says what is missing and what is down",
        READY,
        None,
        (QueryParameter("level", {"enum": ["answers", "fresh", "complete"]}),),
        other_responses={"503": (JSON_TYPE, READY)},
    ),
    "/ping": OpenApiOperation("Whether the server answers, by MLflow's protocol", TEXT, response_type=PLAIN_TYPE),
    "/version": OpenApiOperation("The version of Headrace", TEXT, response_type=PLAIN_TYPE),
    "/login": OpenApiOperation(
        "A cookie for a browser, from a form with a token",
        request_body=object_schema({"token": TEXT}),
        request_type=FORM_TYPE,
        other_responses={"200": ("", ANY), "303": (PLAIN_TYPE, TEXT), "401": (HTML_TYPE, TEXT)},
    ),
    "/logout": OpenApiOperation("The end of a browser's session", SESSION),
    "/session": OpenApiOperation("Whether a browser has a session", SESSION),
}
