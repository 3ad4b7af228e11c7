"""How far whoever reads the log is behind, looked up four times a second, and told to other tools as consumer groups.

payments.gate        payments         the last raw offset with a fate, and as many more as there are fates not read yet
payments.tiles-0     payments.clean   what arrived no later than the newest event in a tile, or its checkpoint
abroad.derive        payments.clean   what it has committed, where it does so each second
fraud.score          payments.clean   what its group has committed
CardSpend.store      CardSpend.tiles  where this server is, or what the group that fills Redis has committed
silver/payments.lake payments.clean   where the last step ended
SINK.sink            payments.clean   what its group has kept
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from headrace.declare.app import App
from headrace.declare.derivation import Derivation
from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.follow import ASK_SECONDS
from headrace.log.groups import Groups
from headrace.log.lag import Behind, Lags
from headrace.log.ledger import Ledger
from headrace.log.offsets import Offsets
from headrace.log.progress import ProgressBoard, QueryProgress
from headrace.log.records import Partition
from headrace.score.run import group_of as scores_of
from headrace.serve.ledgers import Ledgers
from headrace.store.apply import group_of as fills_of
from headrace.store.online import Online

EVERY_SECONDS = 0.25
MOST_OF_THE_TIME, LONGEST_SECONDS = 0.1, 1.0  # with thousands of partitions looks are further apart
TELL_SECONDS = 5.0
LIST_SECONDS = 10.0
LOGGER = logging.getLogger("headrace.serve")

Places = dict[Partition, int]


@dataclass(frozen=True)
class Readers:
    """Whoever reads the log for an app, and who knows how far they have come."""

    app: App
    board: ProgressBoard
    ledgers: Ledgers
    online: Online

    def untold(self) -> dict[str, Places]:
        """Where the queries are that commit nothing themselves."""
        ledgers = self.ledgers.read
        streams = [stream for stream in self.app.streams if stream.name in ledgers]
        gates = {f"{stream.name}.gate": _gate(stream, ledgers[stream.name]) for stream in streams}
        tiles = {
            said.query: self._tiles(said, stream, ledgers[stream.name])
            for stream in streams
            for said in self.kept(stream)
        }
        return gates | tiles | self.deriving() | self._stores(self.online.positions) | self._landed()

    def deriving(self) -> dict[str, Places]:
        """Where derivations are that commit each batch; in real time checkpoints are minutes old: that is no lag."""
        said = self.board.latest.copy()
        known = [one for one in self.app.derivations if one.query in said and said[one.query].lane == "micro-batch"]
        return {one.query: dict(_reached(one, said[one.query])) for one in known}

    def unread(self) -> dict[str, Mapping[Partition, int]]:
        """Of each gate, where its ledger goes on reading what it has written."""
        return {f"{name}.gate": self.ledgers.unread(name) for name in self.ledgers.read}

    def groups(self) -> dict[str, str]:
        """The groups of those that do, by query; the store's is of all views."""
        scorers = {f"{model.name}.score": scores_of(model) for model in self.app.models}
        fill = {"store": fills_of(self.app.views)} if self.app.views and not self.online.tables else {}
        return scorers | fill | {sink.query: sink.group for sink in self.app.sinks}

    def topics(self) -> dict[str, set[str]]:
        """What each of these groups reads."""
        read = {f"{model.name}.score": {model.stream.clean} for model in self.app.models}
        read["store"] = {view.topic for view in self.app.views}
        read |= {sink.query: {sink.topic, sink.again} for sink in self.app.sinks}
        return {group: read[query] for query, group in self.groups().items()}

    def of_groups(self, committed: dict[str, Places]) -> dict[str, Places]:
        """Where these are, by query."""
        reached = {query: committed.get(group, {}) for query, group in self.groups().items()}
        stores = self._stores(reached.pop("store", {}))
        return reached | stores

    def by_steps(self) -> set[str]:
        """Those that go by steps of minutes."""
        return {_lake(table) for table in self.board.landings.copy()}

    def kept(self, stream: Stream) -> Iterable[QueryProgress]:
        """The queries that keep the views of a stream: of each view the one that spoke last."""
        said = sorted(self.board.latest.copy().values(), key=lambda one: one.at_us)
        newest = {view: one for one in said if one.stream == stream.name for view in one.views}
        wanted = {view.name for view in self.app.views_of(stream)}
        return {one.query: one for view, one in newest.items() if view in wanted}.values()

    def _tiles(self, said: QueryProgress, stream: Stream, ledger: Ledger) -> Places:
        tables = [self.online.tables[view] for view in said.views if view in self.online.tables]
        if not tables or not self.online.positions:
            return {}  # checkpoints alone are minutes old: that is no lag
        arrived = ledger.arrived(max(table.arrived_us(stream) for table in tables))
        kept = {int(partition): offset for partition, offset in said.reached.items()}
        numbers = arrived.keys() | kept.keys()
        return {Partition(stream.clean, n): max(arrived.get(n, 0), kept.get(n, 0)) for n in sorted(numbers)}

    def _stores(self, places: Mapping[Partition, int]) -> dict[str, Places]:
        queries = {view.topic: f"{view.name}.store" for view in self.app.views}
        reached: dict[str, Places] = {}
        for place, offset in places.items():
            reached.setdefault(queries[place.topic], {})[place] = offset
        return reached

    def _landed(self) -> dict[str, Places]:
        return {
            _lake(said.landed): {Partition(said.topic, int(n)): offset for n, offset in said.reached.items()}
            for said in self.board.landings.copy().values()
        }


def _gate(stream: Stream, ledger: Ledger) -> Places:
    return {Partition(stream.name, number): offset for number, offset in ledger.reached().items()}


def ahead(reached: Places, unread: Mapping[Partition, int], ends: Mapping[Partition, int]) -> Places:
    """A gate's places, given where its ledger reads on in the gate's topics: each record there is the fate of one more.

    raw      ├──────── judged, as the ledger has read ────────┤── unread fates ──┤   waits   ┤ end
    """
    more = Counter[int]()
    for place, offset in unread.items():
        more[place.number] += max(0, ends.get(place, offset) - offset)
    return {place: min(offset + more[place.number], ends.get(place, offset)) for place, offset in reached.items()}


def _reached(made_by: Derivation, said: QueryProgress) -> Iterator[tuple[Partition, int]]:
    """The places a derivation has come to: of one input, it tells only the numbers of its partitions."""
    for told, offset in said.reached.items():
        topic, _, number = told.rpartition("-")
        yield Partition(topic or made_by.inputs[0].clean, int(number)), offset


def _lake(table: str) -> str:
    return f"{table}.lake"


class Lagging:
    """Looks four times a second; nobody who asks waits for the broker."""

    def __init__(self, broker: str, readers: Readers, *, tells: bool) -> None:
        """With `tells`, what others cannot see is told as groups, every few seconds."""
        self.behind = Behind()
        self.readers, self._tells = readers, tells
        self._offsets, self._groups, self._lags = Offsets(broker, ASK_SECONDS), Groups(broker, ASK_SECONDS), Lags()
        self._told_s = self._listed_s = self._wanted_s = -LIST_SECONDS
        self._read_by: dict[str, list[Partition]] = {}
        self._asked, self._listed = set[Partition](), set[Partition]()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="lag", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._groups.close()

    def look(self) -> None:
        """Look once."""
        untold = self.readers.untold()
        committed = self.readers.of_groups(self._groups.committed(self._wanted()))
        unread = self.readers.unread()
        read = [*untold.values(), *committed.values(), *unread.values()]
        ends = self._offsets.end_of(self._known({place for places in read for place in places}))
        self.readers.ledgers.raw_ends(ends)
        untold |= {gate: ahead(untold[gate], places, ends) for gate, places in unread.items() if gate in untold}
        reached = untold | committed
        self.behind = self._lags.look(reached, ends, time.monotonic(), self.readers.by_steps())
        if self._tells and time.monotonic() - self._told_s >= TELL_SECONDS:
            self._told_s = time.monotonic()
            self._groups.publish(dict(_groups(self.readers.app.name, untold)))

    def _wanted(self) -> dict[str, list[Partition]]:
        """The partitions that groups read, asked for now and then."""
        if time.monotonic() - self._wanted_s >= LIST_SECONDS:
            topics = self.readers.topics()
            there = self._offsets.partitions({topic for some in topics.values() for topic in some})
            self._read_by = {group: [at for at in there if at.topic in some] for group, some in topics.items()}
            self._wanted_s = time.monotonic()
        return self._read_by

    def _known(self, places: set[Partition]) -> set[Partition]:
        """Those that the broker has: a table of the lake may be of a topic that is gone."""
        if places != self._asked or time.monotonic() - self._listed_s >= LIST_SECONDS:
            there = set(self._offsets.partitions({place.topic for place in places}))
            self._asked, self._listed, self._listed_s = places, places & there, time.monotonic()
        return self._listed

    def _look_on(self) -> None:
        took_s = 0.0
        while not self._stopping.wait(min(max(EVERY_SECONDS, took_s / MOST_OF_THE_TIME), LONGEST_SECONDS)):
            began_s = time.monotonic()
            try:
                self.look()
            except HeadraceError as problem:  # a broker that restarts: what was known stays
                LOGGER.info("the lag of this moment is not known: %s", problem)
            except Exception:
                LOGGER.exception("the lag of this moment is not known")
            took_s = time.monotonic() - began_s


def _groups(app: str, reached: dict[str, Places]) -> Iterator[tuple[str, Places]]:
    """What is told of queries that have come anywhere, by a name that other tools take too."""
    for query, places in reached.items():
        if places:
            yield f"headrace.{app}.{query.replace('/', '.')}", places
