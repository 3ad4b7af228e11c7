"""GET /v2/health/live and /v2/health/ready: liveness, readiness, freshness, and whether every part runs.

answers     the store has caught up since the start: features and predictions are served
fresh       it answers, and every gate, derivation and view has a running query
complete    it is fresh, and every part, query, lake table, sink, bridge, outbox and capture works
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs

from headrace.kafka.status.app_status import Outage
from headrace.server.http.responses import BadRequest, Response, json_response
from headrace.server.http.routing import Request
from headrace.server.metrics.worker_stats import WorkerStats

ANSWERS, FRESH, COMPLETE = LEVELS = ("answers", "fresh", "complete")


class ServerReadiness(NamedTuple):
    """The levels reached, a sentence for each missing condition, and what is down."""

    answers: bool
    fresh: bool
    missing: Sequence[str]
    down: Sequence[Outage]

    @property
    def complete(self) -> bool:
        return self.fresh and not self.down

    def has_reached(self, level: str) -> bool:
        return {ANSWERS: self.answers, FRESH: self.fresh, COMPLETE: self.complete}[level]


class HealthHandler:
    """Ready once every worker is; any client gets the status, a client with the scope read also gets the reasons."""

    def __init__(
        self,
        worker_stats: WorkerStats,
        get_outages: Callable[[], Sequence[Outage]],
        can_read: Callable[[Request], bool],
    ) -> None:
        self._worker_stats, self._get_outages, self._can_read = worker_stats, get_outages, can_read

    async def handle_live(self, _request: Request) -> Response:
        """Liveness: the server answers."""
        return json_response({"live": True})

    async def handle_ready(self, request: Request) -> Response:
        """Whether the requested level is reached; a client with the scope read gets reasons and outages."""
        level = parse_level(request)
        problems = await self._worker_stats.readiness_problems()
        readiness = ServerReadiness(
            not problems.answering, not problems.sentences, problems.sentences, self._get_outages()
        )
        is_ready = readiness.has_reached(level)
        content = {"ready": is_ready, **(describe_readiness(readiness) if self._can_read(request) else {})}
        return json_response(content, 200 if is_ready else 503)


def describe_readiness(readiness: ServerReadiness) -> dict[str, object]:
    """Every level, and why those that are not reached are not."""
    return {
        ANSWERS: readiness.answers,
        FRESH: readiness.fresh,
        COMPLETE: readiness.complete,
        "missing": list(readiness.missing),
        "down": [outage.to_json() for outage in readiness.down],
    }


def parse_level(request: Request) -> str:
    """The level that decides the status."""
    level = parse_qs(request.query.decode("ascii", "replace")).get("level", [FRESH])[-1]
    if level not in LEVELS:
        raise BadRequest(f"level={level[:50]!r} is none. Write level={ANSWERS}, level={FRESH} or level={COMPLETE}.")
    return level
