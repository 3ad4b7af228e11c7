"""The captured tables that views look up, kept in this process by following their clean changes."""

from headrace.declare.app import App
from headrace.declare.changes import Latest
from headrace.log.follow import Follower, State
from headrace.log.records import Record
from headrace.tiles.events import Event, read_event
from headrace.tiles.tables import current


class Captured:
    """Follows the changes of every table that a view of an app reads; an app whose views read none needs no thread."""

    def __init__(self, app: App, broker: str) -> None:
        self._tables = {latest.changes.clean: latest for latest in looked_up(app)}
        self._follower = Follower(broker, list(self._tables), self._apply) if self._tables else None

    def start(self) -> None:
        if self._follower:
            self._follower.start()

    def stop(self) -> None:
        if self._follower:
            self._follower.stop()

    def missing(self) -> list[str]:
        """What keeps rows from being looked up as they are, a sentence each."""
        follower = self._follower
        if follower is None or (follower.caught_up and follower.state is not State.FAILED):
            return []
        names = ", ".join(latest.label for latest in self._tables.values())
        return [follower.trouble or f"the tables {names} have {follower.positions.remaining} changes to read"]

    def _apply(self, records: list[Record]) -> None:
        by_topic: dict[str, list[Event]] = {}
        for record in records:
            schema = self._tables[record.topic].changes.schema
            by_topic.setdefault(record.topic, []).append(read_event(schema, record.value))
        for topic, changes in by_topic.items():
            current(self._tables[topic]).apply(changes)


def looked_up(app: App) -> list[Latest]:
    """The captured tables that views of an app read."""
    found = dict.fromkeys(one.table for view in app.views for one in view.joined)
    return [table for table in found if isinstance(table, Latest)]
