"""Views whose history is being folded are not served before it is whole: a value would miss what is not there yet."""

from collections.abc import Awaitable, Sequence
from pathlib import Path

from headrace.declare.views import View
from headrace.log.progress import ProgressBoard
from headrace.log.records import Partition
from headrace.serve.answers import Answer, Unavailable
from headrace.serve.http import Handle, Request
from headrace.store.online import Online
from headrace.stream.backfills import load


class Histories:
    """Which views wait for their history, and for what: asked until each is whole, and not any more from then on."""

    def __init__(self, state: Path, online: Online, board: ProgressBoard) -> None:
        self._state, self._online, self._board = state, online, board
        self.whole: set[str] = set()

    async def missing(self, views: Sequence[View]) -> list[str]:
        """A sentence for each view that is not whole."""
        return [said for view in views if (said := await self._missing(view))]

    async def require_whole(self, view: View) -> None:
        """Raise Unavailable while a view's history is not in the store."""
        if said := await self._missing(view):
            raise Unavailable(f"{said[0].upper()}{said[1:]}. Ask again once /v2/health/ready says so.")

    async def _missing(self, view: View) -> str | None:
        if view.name in self.whole:
            return None
        backfill = load(self._state, view)
        if backfill is None:
            self._settle(view)
            return None
        if backfill.ends is None:
            return f"the history of {view.name} is being folded, which needs `headrace backfill APP {view.name}`"
        if not await self._online.reached(ends_in(view, backfill.ends)):
            return f"the history of {view.name} is not in the store yet"
        if self._not_computed(view):
            return f"the stream has not gone on from the history of {view.name} yet"
        self.whole.add(view.name)
        return None

    def _settle(self, view: View) -> None:
        """A view that is computed without a history can have none any more."""
        if not self._not_computed(view):
            self.whole.add(view.name)

    def _not_computed(self, view: View) -> bool:
        return bool(self._board.missing((), [view]))


def ends_in(view: View, ends: Sequence[int]) -> dict[Partition, int]:
    """The ends of a view's changelog by partition."""
    return {Partition(view.topic, number): end for number, end in enumerate(ends) if end}


def once_whole(view: View, histories: Histories, handle: Handle) -> Handle:
    """Answers as `handle` does, once a view's history is whole."""

    async def look_first(request: Request) -> Answer:
        await histories.require_whole(view)
        return await handle(request)

    def answer(request: Request) -> Awaitable[Answer]:
        return handle(request) if view.name in histories.whole else look_first(request)

    return answer
