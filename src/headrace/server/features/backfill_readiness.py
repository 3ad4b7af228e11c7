"""Blocks serving of a view during its backfill: a value would lack the history that is not in the store yet."""

from collections.abc import Awaitable, Sequence
from pathlib import Path

from headrace.declare.features.view import View
from headrace.kafka.record import Partition
from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader
from headrace.server.http.responses import Response, ServiceUnavailable
from headrace.server.http.routing import Handler, Request
from headrace.spark.tiles.backfill_cutovers import load_backfill


class BackfillReadiness:
    """Views whose backfill is incomplete, and the reasons; each is checked until it is complete, and then no more."""

    def __init__(self, state: Path, online: OnlineStoreReader, progress_table: ProgressTable) -> None:
        self._state, self._online, self._progress_table = state, online, progress_table
        self.ready_views: set[str] = set()

    async def missing_reasons(self, views: Sequence[View]) -> list[str]:
        """A sentence for each view whose backfill is incomplete."""
        return [reason for view in views if (reason := await self._missing_reason(view))]

    async def require_ready(self, view: View) -> None:
        """Raise ServiceUnavailable while a view's backfill is incomplete."""
        if reason := await self._missing_reason(view):
            raise ServiceUnavailable(f"{reason[0].upper()}{reason[1:]}. Ask again once /v2/health/ready says so.")

    async def _missing_reason(self, view: View) -> str | None:
        if view.name in self.ready_views:
            return None
        backfill = load_backfill(self._state, view)
        if backfill is None:
            self._mark_ready_if_computed(view)
            return None
        if backfill.ends is None:
            return f"the history of {view.name} is being folded, which needs `headrace backfill APP {view.name}`"
        if not await self._online.has_reached(changelog_end_offsets(view, backfill.ends)):
            return f"the history of {view.name} is not in the store yet"
        if self._is_uncomputed(view):
            return f"the stream has not gone on from the history of {view.name} yet"
        self.ready_views.add(view.name)
        return None

    def _mark_ready_if_computed(self, view: View) -> None:
        """A view whose query runs without a backfill needs none any more."""
        if not self._is_uncomputed(view):
            self.ready_views.add(view.name)

    def _is_uncomputed(self, view: View) -> bool:
        return bool(self._progress_table.missing_queries((), [view]))


def changelog_end_offsets(view: View, ends: Sequence[int]) -> dict[Partition, int]:
    """The end offsets of a view's changelog by partition."""
    return {Partition(view.topic, number): end for number, end in enumerate(ends) if end}


def require_backfill(view: View, readiness: BackfillReadiness, handler: Handler) -> Handler:
    """Run `handler` only once a view's backfill is complete."""

    async def check_then_handle(request: Request) -> Response:
        await readiness.require_ready(view)
        return await handler(request)

    def handle_request(request: Request) -> Awaitable[Response]:
        return handler(request) if view.name in readiness.ready_views else check_then_handle(request)

    return handle_request
