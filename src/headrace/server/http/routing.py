"""Routes a request to its handler, or rejects it with an error of one sentence."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple

from headrace.online_store.feature_lookup import StoreUnavailable
from headrace.server.auth.request_guard import RequestGuard, stream_while_allowed
from headrace.server.auth.scopes import Scope
from headrace.server.http.admission_control import AdmissionQueue, RequestArrival
from headrace.server.http.openapi_operations import OpenApiOperation
from headrace.server.http.responses import (
    Header,
    HttpError,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    Response,
    ServiceUnavailable,
)
from headrace.server.metrics.request_stats import RequestStats

MAX_BODY_BYTES = 1 << 20
RESPONSE_TIMEOUT_SECONDS = 60.0
LOGGER = logging.getLogger("headrace.serve")


class Request(NamedTuple):
    """A request, its arrival (of its last bytes, if it came in several reads), and the client's address."""

    method: str
    path: str
    query: bytes
    headers: Iterable[Header]
    body: bytes
    arrival: RequestArrival
    address: str = ""

    def header(self, header_name: bytes) -> bytes | None:
        return next((value for name, value in self.headers if name.lower() == header_name), None)


class PendingRequest(NamedTuple):
    """A request, whether its connection stays open, and the response if it was rejected before its handler."""

    request: Request
    keeps_alive: bool
    rejection: Response | None


Handler = Callable[[Request], Awaitable[Response]]


class InternalServerError(HttpError):
    """An error inside the server."""


INTERNAL_SERVER_ERROR = InternalServerError("The server failed on this request; its log says why. Please report it.")


@dataclass(frozen=True)
class Route:
    """A path, its methods and handler, and the scope that a client needs: ADMIN by default.

    An overloaded server rejects requests of sheddable routes only. A handler that runs inline rarely awaits anything,
    so it starts before there is a task for it. A response that takes longer than `timeout_s`, or the default timeout,
    is cancelled. Other packages give the `operation` of their routes here.
    """

    path: str
    methods: tuple[str, ...]
    handler: Handler
    is_sheddable: bool = False
    runs_inline: bool = False
    scope: Scope = Scope.ADMIN
    operation: OpenApiOperation | None = None
    timeout_s: float | None = None


def get_route(path: str, handler: Handler, scope: Scope = Scope.ADMIN) -> Route:
    return Route(path, ("GET", "HEAD"), handler, scope=scope)


def post_route(path: str, handler: Handler, runs_inline: bool = False, scope: Scope = Scope.ADMIN) -> Route:
    return Route(path, ("POST",), handler, is_sheddable=True, runs_inline=runs_inline, scope=scope)


class Router:
    """Answers every request with its route's handler, or with an error of one sentence.

    Without a guard, every client has access.
    """

    def __init__(
        self, routes: Iterable[Route], stats_by_path: dict[str, RequestStats], guard: RequestGuard | None = None
    ) -> None:
        self._routes, self._guard = {route.path: route for route in routes}, guard
        self._stats_by_path = {path: stats_by_path.setdefault(path, RequestStats()) for path in self._routes}
        self._unmatched_stats = stats_by_path.setdefault("elsewhere", RequestStats())
        self.inline_paths = frozenset(path for path, route in self._routes.items() if route.runs_inline)
        self.admission_queue = AdmissionQueue()
        # A proxy's connection carries many clients: it is read on after one of them was rejected.
        self.limits_per_client = guard is None or not guard.is_behind_proxy

    async def handle(self, request: Request) -> Response:
        """The response to a request, which may be an error."""
        try:
            response = await self._dispatch(request)
        except HttpError as error:
            response = error.response
        except StoreUnavailable as problem:
            response = ServiceUnavailable(str(problem)).response
        except Exception:
            LOGGER.exception("%s %s failed", request.method, request.path)
            response = INTERNAL_SERVER_ERROR.response
        self.record_response(request, response)
        return response

    def find_early_error(self, request: Request) -> Response | None:
        """The response that rejects an unauthorized request before its body has arrived; None if it is authorized."""
        scope = _required_scope(self._routes.get(request.path))
        if self._guard is None or self._guard.is_authorized(request, scope):
            return None
        try:
            self._guard.authorize(request, scope)
        except HttpError as error:
            return error.response
        return None

    def timeout_s(self, path: str) -> float:
        """The timeout of a response."""
        route = self._routes.get(path)
        return RESPONSE_TIMEOUT_SECONDS if route is None or route.timeout_s is None else route.timeout_s

    def record_response(self, request: Request, response: Response) -> None:
        """Count a response, and record its duration."""
        stats = self._stats_by_path.get(request.path, self._unmatched_stats)
        stats.add(response.status, perf_counter() - request.arrival.arrived_at)

    async def _dispatch(self, request: Request) -> Response:
        route, queue = self._routes.get(request.path), self.admission_queue
        if self._guard is not None:
            self._guard.authorize(request, _required_scope(route))
        if route is None:
            raise self._not_found(request.path)
        if request.method not in route.methods:
            raise MethodNotAllowed(request.method, request.path, ", ".join(route.methods))
        if not route.is_sheddable:
            return self._guard_stream(request, route, await route.handler(request))
        queue.require_capacity(request.arrival, perf_counter())
        queue.running += 1
        try:
            return await route.handler(request)
        finally:
            queue.running -= 1

    def _guard_stream(self, request: Request, route: Route, response: Response) -> Response:
        """End a streamed response when its client is no longer authorized."""
        if self._guard is None or response.body_stream is None:
            return response
        return response._replace(
            body_stream=stream_while_allowed(
                response.body_stream, partial(self._guard.is_authorized, request, route.scope)
            )
        )

    def _not_found(self, path: str) -> NotFound:
        prefix = path[: path.find("/", 1) + 1]
        similar_paths = [known_path for known_path in self._routes if len(prefix) > 1 and known_path.startswith(prefix)]
        return NotFound(f"There is no {path[:200]}. There is {', '.join(similar_paths or self._routes)}.")


def _required_scope(route: Route | None) -> Scope:
    """The scope of a route; READ for an unknown path, since the 404 lists the routes."""
    return Scope.READ if route is None else route.scope


def body_too_large_error(size: int | None = None) -> PayloadTooLarge:
    """The error for a body of `size` bytes, or of too many while its size is unknown."""
    size_text = f"more than {MAX_BODY_BYTES} bytes" if size is None else f"{size} bytes and may have {MAX_BODY_BYTES}"
    return PayloadTooLarge(f"The body has {size_text}. Ask for fewer keys at a time.")


def timeout_error(timeout_s: float) -> ServiceUnavailable:
    """The error for a request whose response took too long."""
    return ServiceUnavailable(
        f"There was no answer within {timeout_s:g} s, and its work was ended. Ask for less, or again later."
    )
