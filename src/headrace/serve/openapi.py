"""GET /openapi.json: OpenAPI 3.1 of every route the server has, made of the routes and of what `operations` tells."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from headrace.declare.app import App
from headrace.serve.http import Route
from headrace.serve.operations import Operation, object_of, operations_of
from headrace.serve.scopes import Scope

PATH = "/openapi.json"
REFUSALS = {
    "400": "The request cannot be understood",
    "401": "The server wants a token",
    "403": "Whoever asks may not",
    "413": "More bytes, keys or events than one request may have",
    "415": "The body is of a type that is not read",
    "429": "More requests than the server can answer, or than one may make",
    "500": "The server failed on this request; its log says why",
    "503": "The server, or its store, cannot answer now",
}
ERROR = object_of({"error": {"type": "string"}})
TOKEN = {"type": "http", "scheme": "bearer", "description": "What `headrace token create NAME --scope read` printed."}


def document(app: App, routes: Iterable[Route]) -> dict[str, Any]:
    """The document of some routes; those that nothing is told of are the page's own files."""
    told = operations_of(app)
    described = {route.path: (route, route.operation or told.get(route.path)) for route in routes}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Headrace: {app.name}", "version": version("headrace")},
        "paths": {
            path: _path(route, operation) for path, (route, operation) in described.items() if operation is not None
        },
        "components": {
            "securitySchemes": {"token": TOKEN},
            "schemas": {"Error": ERROR},
            "responses": {name: _refusal(why) for name, why in _named_refusals().items()},
        },
    }


def _path(route: Route, operation: Operation) -> dict[str, Any]:
    method = "post" if "POST" in route.methods else "get"
    return {method: _operation(route, operation)}


def _operation(route: Route, operation: Operation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": route.path.strip("/").replace("/", "_").replace(".", "_").replace("-", "_") or "page",
        "summary": operation.summary,
        "security": [] if route.scope is Scope.OPEN else [{}, {"token": [str(route.scope)]}],
        "responses": _responses(operation),
    }
    if operation.parameters:
        said["parameters"] = [
            {"name": one.name, "in": "query", "required": one.is_needed, "schema": one.schema}
            for one in operation.parameters
        ]
    if operation.body is not None:
        said["requestBody"] = {"required": True, "content": {operation.sent: {"schema": operation.body}}}
    return said


def _responses(operation: Operation) -> dict[str, Any]:
    """The answers of an operation by their status."""
    refused = {status: {"$ref": f"#/components/responses/{_name(status)}"} for status in REFUSALS}
    usual = {"200": _answer(operation.summary, operation.kind, operation.answer), **refused}
    instead = {status: _answer(operation.summary, *told) for status, told in operation.instead.items() if told[0]}
    return {status: one for status, one in usual.items() if status not in operation.instead} | instead


def _answer(summary: str, kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": summary, "content": {kind: {"schema": schema}}}


def _refusal(why: str) -> Mapping[str, Any]:
    return {"description": why, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}


def _named_refusals() -> dict[str, str]:
    return {_name(status): why for status, why in REFUSALS.items()}


def _name(status: str) -> str:
    return f"Refused{status}"
