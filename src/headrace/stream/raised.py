"""A row that raises: found among those that were not committed, made a dead letter, and left out from then on.

    committed ├──────────────── rows the query had before it ────────────────┤ end, when it failed
                         ✗ payments.clean-0@42 ──▶ abroad, with the error as a header ──gate──▶ abroad.dead

It goes through the derived stream's own gate, so that it is counted, shown, landed and replayed like any dead letter.
The query then goes on from its checkpoint: what it had written since is written again, and dropped by id.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.errors import HeadraceError
from headrace.log.between import records_between
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.records import Partition, Record
from headrace.stream.checkpoints import committed_places, write_whole
from headrace.stream.culprits import culprits, said_of_data
from headrace.stream.derived import Function, Places, called, frames, records
from headrace.stream.gate import RAISED
from headrace.stream.lanes import Lane

AT_ONCE = 10_000
LOOKED_AHEAD = 50_000  # so many rows are looked at even when one was found: a restart for each would be slow
FEW = 100  # so many may raise, whatever their share
ONE_TASK = ("spark.sql.shuffle.partitions", "spark.sql.leafNodeDefaultParallelism")  # a trial has few rows
LOGGER = logging.getLogger("headrace.stream")
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class NotTheRows(HeadraceError):
    """A function raises, and no row is to blame."""


class Raised(NamedTuple):
    """A row that raises, and what."""

    record: Record
    why: str


@dataclass(frozen=True)
class Aside:
    """The rows of a derivation that are left out, beside its checkpoint, and how more are found."""

    function: Function
    broker: str
    checkpoint: Path

    @property
    def file(self) -> Path:
        return self.checkpoint.with_name(f"{self.checkpoint.name}.left-out.json")

    def places(self) -> Places:
        """Where the rows stand that are not given to the function."""
        if not self.file.exists():
            return {}
        kept = json.loads(self.file.read_text())
        return {Partition(topic, int(n)): frozenset(at) for topic, of in kept.items() for n, at in of.items()}

    def mend(self, spark: SparkSession, failure: Exception) -> None:
        """Put aside what made a query fail, if rows did; else the failure stands."""
        if not isinstance(failure, PySparkException):
            raise failure
        LOGGER.warning("%s failed: looking for rows that raise", self.function.made_by.query)
        try:
            found = self._find(spark)
        except NotTheRows:
            raise
        except Exception as problem:
            LOGGER.warning("%s: no row could be tried: %s", self.function.made_by.query, problem)
            raise failure from problem
        if not found:
            raise failure
        self._tell(found)
        self._remember(found)

    def _find(self, spark: SparkSession) -> list[Raised]:
        for setting in ONE_TASK:
            spark.conf.set(setting, "1")
        trial, found, looked = Trial(spark, self.function), list[Raised](), 0
        trial.require_willing()
        waiting = self._waiting()
        while (rows := list(islice(waiting, AT_ONCE))) and (not found or looked < LOOKED_AHEAD):
            found += trial.among(rows)
            looked += len(rows)
        if len(found) > max(FEW, looked // 2):
            raise NotTheRows(
                f"{self.function.made_by.query}: {len(found)} of {looked} rows raise, the first {found[0].why!r}: "
                "that is not the rows. Mend the function, or what it calls, then start again: it goes on where it was."
            )
        return found

    def _waiting(self) -> Iterator[Record]:
        """The rows from the last commit on that are not left out yet."""
        offsets, out = Offsets(self.broker), self.places()
        ends = offsets.end(parent.clean for parent in self.function.parents)
        done = committed_places(self.checkpoint)
        begins = {place: max(first, done.get(place, 0)) for place, first in offsets.begin_of(ends).items()}
        for record in records_between(self.broker, begins, ends):
            if record.offset not in out.get(Partition(record.topic, record.partition), ()):
                yield record

    def _tell(self, found: Iterable[Raised]) -> None:
        with Producer(self.broker) as producer:
            for record, why in found:
                LOGGER.warning("%s: %s raises %s", self.function.made_by.query, record.place, why)
                said = [(RAISED, f"{why} ({record.place})")]
                producer.send(self.function.stream.name, record.value, key=record.key, headers=said)

    def _remember(self, found: Iterable[Raised]) -> None:
        """Add to what is left out; what was committed is not read again, and need not be."""
        done, places = committed_places(self.checkpoint), {at: set(offsets) for at, offsets in self.places().items()}
        for record, _ in found:
            places.setdefault(Partition(record.topic, record.partition), set()).add(record.offset)
        kept: dict[str, dict[str, list[int]]] = {}
        for (topic, number), offsets in sorted(places.items()):
            ahead = sorted(offset for offset in offsets if offset >= done.get(Partition(topic, number), 0))
            kept.setdefault(topic, {})[str(number)] = ahead
        write_whole(self.file, json.dumps(kept))


@dataclass(frozen=True)
class Trial:
    """Gives rows to a function in a batch, and hears what it raises."""

    spark: SparkSession
    function: Function

    def require_willing(self) -> None:
        """Refuse to blame rows where the function raises without any, or cannot run in a batch."""
        why = self.raises([])
        if why is not None:
            raise NotTheRows(f"{self.function.made_by.query} raises {why!r} without any row. Mend the function.")

    def among(self, rows: Sequence[Record]) -> list[Raised]:
        """Those that raise alone; then, of several parents, those that raise beside all rows of the others."""
        alone = [Raised(*one) for some in _by_topic(rows).values() for one in culprits(some, self.raises)]
        rest = _without(rows, alone)
        if len(self.function.parents) == 1 or self.raises(rest) is None:
            return alone
        return [*alone, *self._beside(rest)]

    def _beside(self, rows: Sequence[Record]) -> list[Raised]:
        """Of the first parent that has any: one side of what raises together is enough."""
        for topic, some in _by_topic(rows).items():
            others = [row for row in rows if row.topic != topic]
            if self.raises(others) is None:
                found = culprits(some, partial(self._raises_beside, others))
                if blamed := [Raised(*one) for one in found]:
                    return blamed
        return []

    def _raises_beside(self, others: Sequence[Record], rows: Sequence[Record]) -> str | None:
        return self.raises([*others, *rows])

    def raises(self, rows: Sequence[Record]) -> str | None:
        """What the function says of these rows, and only these; None where it takes them."""
        try:
            self._made_of(rows).write.format("noop").mode("overwrite").save()
        except PySparkException as problem:
            why = said_of_data(str(problem), problem.getSqlState())
            if why is None:
                raise
            return why
        return None

    def _made_of(self, rows: Sequence[Record]) -> DataFrame:
        of_topic = _by_topic(rows)
        clean = [self._table(of_topic.get(parent.clean, [])) for parent in self.function.parents]
        result = called(self.function, frames(self.function, clean, Lane.MICRO_BATCH))
        return records(result, self.function.stream)

    def _table(self, rows: Sequence[Record]) -> DataFrame:
        return self.spark.createDataFrame(pa.Table.from_pylist([_row(record) for record in rows], SCHEMA))


def _row(record: Record) -> Mapping[str, object]:
    headers = [{"key": key, "value": value} for key, value in record.headers or ()]
    return {
        "key": record.key,
        "value": record.value,
        "partition": record.partition,
        "offset": record.offset,
        "headers": headers,
    }


def _by_topic(rows: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for row in rows:
        found.setdefault(row.topic, []).append(row)
    return found


def _without(rows: Sequence[Record], found: Sequence[Raised]) -> list[Record]:
    places = {one.record.place for one in found}
    return [row for row in rows if row.place not in places]
