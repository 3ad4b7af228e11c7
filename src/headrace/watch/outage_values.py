"""What is down, as those who watch know it: by the progress topic, and by the supervisor's file without a broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.declare.alert import Watched
from headrace.declare.app import App
from headrace.declare.series import Series
from headrace.log.follow import Follower
from headrace.log.outages import AppStatus, status_of
from headrace.log.progress import TOPIC, ProgressBoard
from headrace.log.status_file import read_status
from headrace.watch.values import Reading

NAME = "headrace_down"


class OutageValues:
    """Knows how many parts, queries and tables are down, and says of each since when, why and what is affected."""

    def __init__(self, app: App, state: Path | None = None) -> None:
        self.board = ProgressBoard()
        self._app, self._state = app, state
        self._status = AppStatus()

    @contextmanager
    def followed(self, broker: str) -> Iterator[None]:
        """Kept up to date."""
        with Follower(broker, [TOPIC], self.board.apply, patient=True):
            yield

    def look(self, now_us: int) -> None:
        """Take in what was last reported."""
        written = None if self._state is None else read_status(self._state)
        more = () if written is None else written.parts
        self._status = status_of(self._app, self.board, now_us, more_parts=more)

    def read(self, watched: Watched, now_us: int) -> Reading | None:  # noqa: ARG002  # a protocol's
        """How many of a kind are down, in the words of their outages."""
        if not isinstance(watched, Series) or watched.name != NAME:
            return None
        kind = dict(watched.labels)["kind"]
        down = [one.sentence.removesuffix(".") for one in self._status.outages if one.kind == kind]
        return Reading(float(len(down)), "; ".join(down) or f"no {kind} is down")
