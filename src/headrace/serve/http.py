"""The ASGI application: from a path to a handler, and from whatever happens to an answer."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from headrace.serve.answers import Answer, BadRequest, Header, NotFound, Refused, TooLarge, Unavailable, WrongMethod
from headrace.serve.overload import RETRY_SECONDS, Connection, Line, TooMany
from headrace.serve.tallies import Tally
from headrace.store.reads import StoreUnavailable

LARGEST_BODY = 1 << 20
CONNECTION = "headrace.connection"
LOGGER = logging.getLogger("headrace.serve")

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Request(NamedTuple):
    """What was asked, and since when we have been at it: its first byte or, if it came in pieces, its last."""

    body: bytes
    query: bytes
    headers: Iterable[Header]
    begun_at: float

    def header(self, wanted: bytes) -> bytes | None:
        return next((value for name, value in self.headers if name == wanted), None)


Handle = Callable[[Request], Awaitable[Answer]]


class Fault(Refused):
    """An error of ours."""


FAULT = Fault("The server failed on this request; its log says why. Please report it.")


class ClientGone(Exception):
    """The client went away before its request was whole."""


@dataclass(frozen=True)
class Route:
    """A path, how it is asked, and who answers; work is refused where there is too much of it, looking is not."""

    path: str
    methods: tuple[str, ...]
    handle: Handle
    is_work: bool = False


def get(path: str, handle: Handle) -> Route:
    return Route(path, ("GET", "HEAD"), handle)


def post(path: str, handle: Handle) -> Route:
    return Route(path, ("POST",), handle, is_work=True)


class Http:
    """Answers every request with what its route says, or with one sentence that says why not."""

    def __init__(self, routes: Iterable[Route], tallies: dict[str, Tally]) -> None:
        self._routes = {route.path: route for route in routes}
        self._tallies = {path: tallies.setdefault(path, Tally()) for path in self._routes}
        self._elsewhere = tallies.setdefault("elsewhere", Tally())
        self.line = Line()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        began, path = perf_counter(), scope["path"]
        connection: Connection | None = scope.get(CONNECTION)
        held = None
        try:
            route = self._route_of(path, scope["method"])
            if route.is_work:
                self.line.require_room(connection, began)
            message = await receive()
            whole = message["type"] == "http.request" and not message["more_body"]
            body = bounded(message["body"]) if whole else await read_on(message, scope, receive)
            # A client that takes its time to send a body takes none of ours.
            begun_at = connection.begun_at if connection is not None and whole else perf_counter()
            answer = await self._worked(route, Request(body, scope["query_string"], scope["headers"], begun_at))
        except TooMany as refused:
            answer, held = refused.answer, connection
        except Refused as refused:
            answer = refused.answer
        except StoreUnavailable as problem:
            answer = Unavailable(str(problem)).answer
        except ClientGone:
            return
        except Exception:
            LOGGER.exception("%s %s failed", scope["method"], path)
            answer = FAULT.answer
        await respond(send, answer)
        if held is not None:
            held.hold(RETRY_SECONDS)
        self._tallies.get(path, self._elsewhere).add(answer.status, perf_counter() - began)

    async def _worked(self, route: Route, request: Request) -> Answer:
        self.line.at_work += route.is_work
        try:
            return await route.handle(request)
        finally:
            self.line.at_work -= route.is_work

    def _route_of(self, path: str, method: str) -> Route:
        route = self._routes.get(path)
        if route is None:
            raise self._not_found(path)
        if method not in route.methods:
            raise WrongMethod(method, path, ", ".join(route.methods))
        return route

    def _not_found(self, path: str) -> NotFound:
        beginning = path[: path.find("/", 1) + 1]
        nearby = [known for known in self._routes if len(beginning) > 1 and known.startswith(beginning)]
        return NotFound(f"There is no {path[:200]}. There is {', '.join(nearby or self._routes)}.")


async def read_on(message: Message, scope: Message, receive: Receive) -> bytes:
    """The whole body of which a part is here; more than a request may have is refused before it is read."""
    _require_small(scope["headers"])
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body = bounded(body + message.get("body", b""))
    if message["type"] != "http.request":
        raise ClientGone
    return body


def bounded(body: bytes) -> bytes:
    if len(body) > LARGEST_BODY:
        raise TooLarge(f"The body has more than {LARGEST_BODY} bytes. Ask for fewer keys at a time.")
    return body


def _require_small(headers: Iterable[Header]) -> None:
    length = next((value for name, value in headers if name == b"content-length"), b"0")
    if not length.isdigit():
        raise BadRequest("The header content-length is not a number. Leave it to your HTTP client.")
    if int(length) > LARGEST_BODY:
        raise TooLarge(f"The body has {int(length)} bytes and may have {LARGEST_BODY}. Ask for fewer keys at a time.")


async def respond(send: Send, answer: Answer) -> None:
    """Send an answer."""
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
