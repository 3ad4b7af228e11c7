"""GET /openapi.json: the OpenAPI 3.1 document, generated from the server's routes and `openapi_operations`."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from headrace.declare.app import App
from headrace.server.auth.scopes import Scope
from headrace.server.http.openapi_operations import OpenApiOperation, describe_operations, object_schema
from headrace.server.http.routing import Route

OPENAPI_PATH = "/openapi.json"
ERROR_DESCRIPTIONS = {
    "400": "The request cannot be understood",
    "401": "The server wants a token",
    "403": "Whoever asks may not",
    "413": "More bytes, keys or events than one request may have",
    "415": "The body is of a type that is not read",
    "429": "More requests than the server can answer, or than one may make",
    "500": "The server failed on this request; its log says why",
    "503": "The server, or its store, cannot answer now",
}
ERROR_SCHEMA = object_schema({"error": {"type": "string"}})
TOKEN_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "What `headrace token create NAME --scope read` printed.",
}


def build_document(app: App, routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI document of routes; routes without an operation, such as the dashboard's files, are left out."""
    operations = describe_operations(app)
    described_routes = {route.path: (route, route.operation or operations.get(route.path)) for route in routes}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Headrace: {app.name}", "version": version("headrace")},
        "paths": {
            path: _path_item(route, operation)
            for path, (route, operation) in described_routes.items()
            if operation is not None
        },
        "components": {
            "securitySchemes": {"token": TOKEN_SCHEME},
            "schemas": {"Error": ERROR_SCHEMA},
            "responses": {name: _error_response(description) for name, description in _descriptions_by_name().items()},
        },
    }


def _path_item(route: Route, operation: OpenApiOperation) -> dict[str, Any]:
    method = "post" if "POST" in route.methods else "get"
    return {method: _operation_object(route, operation)}


def _operation_object(route: Route, operation: OpenApiOperation) -> dict[str, Any]:
    content: dict[str, Any] = {
        "operationId": route.path.strip("/").replace("/", "_").replace(".", "_").replace("-", "_") or "page",
        "summary": operation.summary,
        "security": [] if route.scope is Scope.OPEN else [{}, {"token": [str(route.scope)]}],
        "responses": _response_objects(operation),
    }
    if operation.parameters:
        content["parameters"] = [
            {"name": parameter.name, "in": "query", "required": parameter.is_required, "schema": parameter.schema}
            for parameter in operation.parameters
        ]
    if operation.request_body is not None:
        content["requestBody"] = {
            "required": True,
            "content": {operation.request_type: {"schema": operation.request_body}},
        }
    return content


def _response_objects(operation: OpenApiOperation) -> dict[str, Any]:
    """The responses of an operation by status."""
    error_responses = {
        status: {"$ref": f"#/components/responses/{_response_name(status)}"} for status in ERROR_DESCRIPTIONS
    }
    usual_responses = {
        "200": _response_object(operation.summary, operation.response_type, operation.response),
        **error_responses,
    }
    other_responses = {
        status: _response_object(operation.summary, *type_and_schema)
        for status, type_and_schema in operation.other_responses.items()
        if type_and_schema[0]
    }
    return {
        status: response for status, response in usual_responses.items() if status not in operation.other_responses
    } | other_responses


def _response_object(summary: str, content_type: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": summary, "content": {content_type: {"schema": schema}}}


def _error_response(response_name: str) -> Mapping[str, Any]:
    return {
        "description": response_name,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }


def _descriptions_by_name() -> dict[str, str]:
    return {_response_name(status): description for status, description in ERROR_DESCRIPTIONS.items()}


def _response_name(status: str) -> str:
    return f"Refused{status}"
