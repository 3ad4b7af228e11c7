"""From a request to its answer: the route that handles it, or one sentence that says why there is none."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple

from headrace.serve.answers import Answer, Header, NotFound, Refused, TooLarge, Unavailable, WrongMethod
from headrace.serve.guard import Guard, while_allowed
from headrace.serve.operations import Operation
from headrace.serve.overload import Came, Line
from headrace.serve.scopes import Scope
from headrace.serve.tallies import Tally
from headrace.store.reads import StoreUnavailable

LARGEST_BODY = 1 << 20
ANSWER_SECONDS = 60.0
LOGGER = logging.getLogger("headrace.serve")


class Request(NamedTuple):
    """What was asked, when it came (if it came in pieces, the last of them), and from where."""

    method: str
    path: str
    query: bytes
    headers: Iterable[Header]
    body: bytes
    came: Came
    address: str = ""

    def header(self, wanted: bytes) -> bytes | None:
        return next((value for name, value in self.headers if name.lower() == wanted), None)


Handle = Callable[[Request], Awaitable[Answer]]


class Fault(Refused):
    """An error of ours."""


FAULT = Fault("The server failed on this request; its log says why. Please report it.")


@dataclass(frozen=True)
class Route:
    """A path, how it is asked, who answers, and what whoever asks has to be allowed: everything, unless told otherwise.
    What it takes and gives is told here by who is not of this room.

    Work is refused where there is too much of it, looking is not. Who is at hand rarely has to wait for anybody, and is
    begun before there is a task for it. An answer that takes longer than `limit_s`, or the usual limit, is given up.
    """

    path: str
    methods: tuple[str, ...]
    handle: Handle
    is_work: bool = False
    is_at_hand: bool = False
    scope: Scope = Scope.ADMIN
    operation: Operation | None = None
    limit_s: float | None = None


def get(path: str, handle: Handle, scope: Scope = Scope.ADMIN) -> Route:
    return Route(path, ("GET", "HEAD"), handle, scope=scope)


def post(path: str, handle: Handle, is_at_hand: bool = False, scope: Scope = Scope.ADMIN) -> Route:
    return Route(path, ("POST",), handle, is_work=True, is_at_hand=is_at_hand, scope=scope)


class Http:
    """Answers every request with what its route says, or with one sentence that says why not.

    Without a guard, whoever reaches it is answered.
    """

    def __init__(self, routes: Iterable[Route], tallies: dict[str, Tally], guard: Guard | None = None) -> None:
        self._routes, self._guard = {route.path: route for route in routes}, guard
        self._tallies = {path: tallies.setdefault(path, Tally()) for path in self._routes}
        self._elsewhere = tallies.setdefault("elsewhere", Tally())
        self.at_hand = frozenset(path for path, route in self._routes.items() if route.is_at_hand)
        self.line = Line()
        # A proxy's connection is that of many: it is read on, whoever of them was refused.
        self.holds_back = guard is None or not guard.is_behind_proxy

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

    def refusal(self, request: Request) -> Answer | None:
        """What is said to a request whose body has not come yet and need not, because it may not be answered."""
        scope = _scope_of(self._routes.get(request.path))
        if self._guard is None or self._guard.allows(request, scope):
            return None
        try:
            self._guard.require(request, scope)
        except Refused as refused:
            return refused.answer
        return None

    def limit_s(self, path: str) -> float:
        """How long the answer to a request may take."""
        route = self._routes.get(path)
        return ANSWER_SECONDS if route is None or route.limit_s is None else route.limit_s

    def count(self, request: Request, answer: Answer) -> None:
        """Count an answer, and how long it took."""
        tally = self._tallies.get(request.path, self._elsewhere)
        tally.add(answer.status, perf_counter() - request.came.at)

    async def _answered(self, request: Request) -> Answer:
        route, line = self._routes.get(request.path), self.line
        if self._guard is not None:
            self._guard.require(request, _scope_of(route))
        if route is None:
            raise self._not_found(request.path)
        if request.method not in route.methods:
            raise WrongMethod(request.method, request.path, ", ".join(route.methods))
        if not route.is_work:
            return self._guarded(request, route, await route.handle(request))
        line.require_room(request.came, perf_counter())
        line.at_work += 1
        try:
            return await route.handle(request)
        finally:
            line.at_work -= 1

    def _guarded(self, request: Request, route: Route, answer: Answer) -> Answer:
        """What flows goes on only as long as whoever listens may."""
        if self._guard is None or answer.flows is None:
            return answer
        return answer._replace(flows=while_allowed(answer.flows, partial(self._guard.allows, request, route.scope)))

    def _not_found(self, path: str) -> NotFound:
        beginning = path[: path.find("/", 1) + 1]
        nearby = [known for known in self._routes if len(beginning) > 1 and known.startswith(beginning)]
        return NotFound(f"There is no {path[:200]}. There is {', '.join(nearby or self._routes)}.")


def _scope_of(route: Route | None) -> Scope:
    """What a route asks for; where there is none, the answer tells those there are."""
    return Scope.READ if route is None else route.scope


def too_large(size: int | None = None) -> TooLarge:
    """The refusal of a body of so many bytes or, where its end has not come, of too many."""
    has = f"more than {LARGEST_BODY} bytes" if size is None else f"{size} bytes and may have {LARGEST_BODY}"
    return TooLarge(f"The body has {has}. Ask for fewer keys at a time.")


def timed_out(limit_s: float) -> Unavailable:
    """The refusal of a request whose answer took too long."""
    return Unavailable(
        f"There was no answer within {limit_s:g} s, and its work was ended. Ask for less, or again later."
    )
