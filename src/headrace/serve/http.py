"""From a request to its answer: the route that handles it, or one sentence that says why there is none."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from headrace.serve.answers import Answer, Header, NotFound, Refused, TooLarge, Unavailable, WrongMethod
from headrace.serve.overload import Came, Line
from headrace.serve.tallies import Tally
from headrace.store.reads import StoreUnavailable

LARGEST_BODY = 1 << 20
LOGGER = logging.getLogger("headrace.serve")


class Request(NamedTuple):
    """What was asked, and when it came: if it came in pieces, the last of them."""

    method: str
    path: str
    query: bytes
    headers: Iterable[Header]
    body: bytes
    came: Came

    def header(self, wanted: bytes) -> bytes | None:
        return next((value for name, value in self.headers if name.lower() == wanted), None)


Handle = Callable[[Request], Awaitable[Answer]]


class Fault(Refused):
    """An error of ours."""


FAULT = Fault("The server failed on this request; its log says why. Please report it.")


@dataclass(frozen=True)
class Route:
    """A path, how it is asked, and who answers; work is refused where there is too much of it, looking is not.

    Who is at hand rarely has to wait for anybody, and is begun before there is a task for it.
    """

    path: str
    methods: tuple[str, ...]
    handle: Handle
    is_work: bool = False
    is_at_hand: bool = False


def get(path: str, handle: Handle) -> Route:
    return Route(path, ("GET", "HEAD"), handle)


def post(path: str, handle: Handle, is_at_hand: bool = False) -> Route:
    return Route(path, ("POST",), handle, is_work=True, is_at_hand=is_at_hand)


class Http:
    """Answers every request with what its route says, or with one sentence that says why not."""

    def __init__(self, routes: Iterable[Route], tallies: dict[str, Tally]) -> None:
        self._routes = {route.path: route for route in routes}
        self._tallies = {path: tallies.setdefault(path, Tally()) for path in self._routes}
        self._elsewhere = tallies.setdefault("elsewhere", Tally())
        self.at_hand = frozenset(path for path, route in self._routes.items() if route.is_at_hand)
        self.line = Line()

    async def answer(self, request: Request) -> Answer:
        """The answer to a request, which may be a refusal."""
        try:
            answer = await self._answered(request)
        except Refused as refused:
            answer = refused.answer
        except StoreUnavailable as problem:
            answer = Unavailable(str(problem)).answer
        except Exception:
            LOGGER.exception("%s %s failed", request.method, request.path)
            answer = FAULT.answer
        self.count(request, answer)
        return answer

    def count(self, request: Request, answer: Answer) -> None:
        """Count an answer, and how long it took."""
        tally = self._tallies.get(request.path, self._elsewhere)
        tally.add(answer.status, perf_counter() - request.came.at)

    async def _answered(self, request: Request) -> Answer:
        route, line = self._route_of(request.path, request.method), self.line
        if not route.is_work:
            return await route.handle(request)
        line.require_room(request.came, perf_counter())
        line.at_work += 1
        try:
            return await route.handle(request)
        finally:
            line.at_work -= 1

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


def too_large(size: int | None = None) -> TooLarge:
    """The refusal of a body of so many bytes or, where its end has not come, of too many."""
    has = f"more than {LARGEST_BODY} bytes" if size is None else f"{size} bytes and may have {LARGEST_BODY}"
    return TooLarge(f"The body has {has}. Ask for fewer keys at a time.")
