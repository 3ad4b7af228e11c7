"""What a round through the lake changes: every id it touches as it stood before, and as it stands after.

    log     ├─────── before ───────┼──── news ────┤ after
    clock          ├ before ────────────┼ after             predictions that close between are touched as well

Both are computed from the tables, by the rules that the stream's join goes by (`outcomes`). So nothing is remembered
between rounds but how far the last one went, and a round that is computed again is the same.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.terms import Terms
from headrace.evaluate.buckets import CHANGES
from headrace.evaluate.outcomes import Case, Change, Label, Scored, changed, standings
from headrace.evaluate.rounds import Reach, Round
from headrace.evaluate.told import LABEL, SCORED, record_of
from headrace.lake.rows import last_place

ROWS_AT_ONCE = 5_000
_TYPES = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in CHANGES.split(", "))])


def remembered(records: Iterable[Scored | Label], terms: Terms) -> Case:
    """The case of an id, from all its records in any order.

    A prediction whose event arrived while an earlier one of the same version and role was open is that one again.
    """
    case, open_until_us = Case(), dict[tuple[str, str], int]()
    told = list(records)
    for one in sorted((one for one in told if isinstance(one, Scored)), key=attrgetter("partition", "offset")):
        of = one.version, one.role
        if of not in open_until_us or one.arrival_us > open_until_us[of]:
            case.scored[*of, str(one.partition), str(one.offset)] = one
        open_until_us[of] = max(one.closes_us(terms), open_until_us.get(of, 0))
    for label in told:
        if isinstance(label, Label):
            case.hear(label)
    return case


class Clocks(NamedTuple):
    """The clock before a round and after it."""

    before_us: int
    after_us: int


def changes_of(
    known: Iterable[Scored | Label], news: Iterable[Scored | Label], clocks: Clocks, terms: Terms
) -> Iterator[Change]:
    """What some news and the clock change in one id."""
    known = list(known)
    before = standings(remembered(known, terms), terms, clocks.before_us)
    after = standings(remembered([*known, *news], terms), terms, clocks.after_us)
    return changed(before, after)


def rows_between(predictions: DataFrame, labels: DataFrame, before: Round, after: Round) -> DataFrame:
    """All rows up to the end of a round, and whether each is news to it."""
    scored = _between(predictions, before.predictions, after.predictions)
    return scored.unionByName(_between(labels, before.labels, after.labels))


def _between(rows: DataFrame, before: Reach, after: Reach) -> DataFrame:
    offset, partition = F.col("offset"), F.col("partition")
    known = rows.where(offset <= last_place(after.places, partition))
    return known.withColumn("is_new", offset > last_place(before.places, partition))


def changes(rows: DataFrame, clocks: Clocks, terms: Terms) -> DataFrame:
    """The changes of a round, given all rows up to its end."""
    closing = closes(terms)
    is_due = (F.col("kind") == SCORED) & (closing >= clocks.before_us) & (closing < clocks.after_us)
    touched = rows.where(F.col("is_new") | is_due).select("id").distinct()
    own = rows.join(touched, "id", "left_semi").repartition("id").sortWithinPartitions("id")
    return own.mapInArrow(_by_id(clocks, terms), CHANGES)


def closes(terms: Terms) -> Column:
    """When a prediction closes."""
    return F.greatest(F.col("time_us") + terms.kept_us, F.col("arrival_us"))


def newest_arrivals(rows: DataFrame) -> tuple[int, int]:
    """When the newest predictions and labels arrived among the news."""
    found = rows.where("is_new").groupBy("kind").agg(F.max("arrival_us").alias("newest_us")).collect()
    by_kind = {row.kind: row.newest_us for row in found}
    return by_kind.get(SCORED, 0), by_kind.get(LABEL, 0)


def clock_for(rows: DataFrame, clocks: Clocks, terms: Terms, most: int) -> int:
    """The clock of a round, no further than so many predictions close by it."""
    due = rows.where(F.col("kind") == SCORED).select(closes(terms).alias("closes_us"))
    due = due.where((F.col("closes_us") >= clocks.before_us) & (F.col("closes_us") < clocks.after_us))
    first = due.orderBy("closes_us").limit(most).agg(F.count("*"), F.max("closes_us")).collect()[0]
    return clocks.after_us if first[0] < most else int(first[1]) + 1


class _Row(NamedTuple):
    id: str
    kind: str
    version: str | None
    role: str | None
    decision: str | None
    segment: str | None
    time_us: int
    arrival_us: int
    partition: int
    offset: int
    value: float
    features: str | None
    is_new: bool


def _by_id(clocks: Clocks, terms: Terms) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Changes of rows that are sorted by id: no more than the rows of one id are held at a time."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = _changes(_rows(batches), clocks, terms)
        while some := list(islice(found, ROWS_AT_ONCE)):
            yield pa.RecordBatch.from_pylist(some, SCHEMA)

    return told


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[_Row]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in _Row._fields)
        yield from map(_Row._make, zip(*columns, strict=True))


def _changes(rows: Iterator[_Row], clocks: Clocks, terms: Terms) -> Iterator[dict[str, object]]:
    for event_id, of_id in groupby(rows, attrgetter("id")):
        known: list[Scored | Label] = []
        news: list[Scored | Label] = []
        for row in of_id:
            (news if row.is_new else known).append(record_of(row))
        for change in changes_of(known, news, clocks, terms):
            yield {"id": event_id, **change._asdict()}
