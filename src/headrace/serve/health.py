"""GET /v2/health/live and /v2/health/ready: is the server up, can it answer, is it fresh, and does everything run.

answers     the store has read all there was at the start: features and predictions are served
fresh       it answers, and every gate, derivation and view is computed now
complete    it is fresh, and every part, query, lake table, sink, bridge, outbox and capture works
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs

from headrace.log.outages import Outage
from headrace.serve.answers import Answer, BadRequest, json_answer
from headrace.serve.colleagues import Colleagues
from headrace.serve.http import Request

ANSWERS, FRESH, COMPLETE = LEVELS = ("answers", "fresh", "complete")


class Readiness(NamedTuple):
    """Which levels are reached, a sentence for each thing that is missing, and what is down."""

    answers: bool
    fresh: bool
    missing: Sequence[str]
    down: Sequence[Outage]

    @property
    def complete(self) -> bool:
        return self.fresh and not self.down

    def has_reached(self, level: str) -> bool:
        return {ANSWERS: self.answers, FRESH: self.fresh, COMPLETE: self.complete}[level]


class Health:
    """Ready once no process of the server misses anything; anybody is told whether, who may read is told why not."""

    def __init__(
        self, colleagues: Colleagues, outages: Callable[[], Sequence[Outage]], may_read: Callable[[Request], bool]
    ) -> None:
        self._colleagues, self._outages, self._may_read = colleagues, outages, may_read

    async def live(self, _request: Request) -> Answer:
        """The server answers, so it is alive."""
        return json_answer({"live": True})

    async def ready(self, request: Request) -> Answer:
        """Whether the level that is asked for is reached; who may read is told what is missing and what is down."""
        level = level_of(request)
        missing = await self._colleagues.missing()
        readiness = Readiness(not missing.to_answer, not missing.sentences, missing.sentences, self._outages())
        is_ready = readiness.has_reached(level)
        told = {"ready": is_ready, **(described(readiness) if self._may_read(request) else {})}
        return json_answer(told, 200 if is_ready else 503)


def described(readiness: Readiness) -> dict[str, object]:
    """Every level, and why those that are not reached are not."""
    return {
        ANSWERS: readiness.answers,
        FRESH: readiness.fresh,
        COMPLETE: readiness.complete,
        "missing": list(readiness.missing),
        "down": [one.as_json() for one in readiness.down],
    }


def level_of(request: Request) -> str:
    """The level that decides the status."""
    asked = parse_qs(request.query.decode("ascii", "replace")).get("level", [FRESH])[-1]
    if asked not in LEVELS:
        raise BadRequest(f"level={asked[:50]!r} is none. Write level={ANSWERS}, level={FRESH} or level={COMPLETE}.")
    return asked
