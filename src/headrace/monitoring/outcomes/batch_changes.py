"""The changes of a batch through the lake: the status of every affected id before and after.

    log     ├─────── before ───────┼──── new ────┤ after
    clock          ├ before ────────────┼ after             predictions that close in between are affected as well

Both are computed from the tables, by the same rules as the streaming join (`outcomes`). So the only state between
batches is the end of the last one, and a repeated batch gives the same result.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.models.label_policy import LabelPolicy
from headrace.lake.ingestion.record_rows import last_offset_column
from headrace.monitoring.outcomes.batch_log import JoinBatch, TableOffsets
from headrace.monitoring.outcomes.join_inputs import LABEL_KIND, PREDICTION_KIND, to_record
from headrace.monitoring.outcomes.join_processor import CHANGE_COLUMNS
from headrace.monitoring.outcomes.outcomes import (
    LabelEvent,
    OutcomeCase,
    OutcomeChange,
    PredictionEvent,
    diff_statuses,
    outcome_statuses,
)

ROWS_PER_BATCH = 5_000
_TYPES = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
CHANGE_SCHEMA = pa.schema(
    [(name, _TYPES[kind]) for name, kind in (column.split() for column in CHANGE_COLUMNS.split(", "))]
)


def build_case(records: Iterable[PredictionEvent | LabelEvent], policy: LabelPolicy) -> OutcomeCase:
    """The case of an id, from all its records in any order.

    A prediction whose event arrived while an earlier one of the same version and role was open is a repeat of that.
    """
    case, open_until_us = OutcomeCase(), dict[tuple[str, str], int]()
    all_records = list(records)
    for prediction in sorted(
        (one for one in all_records if isinstance(one, PredictionEvent)), key=attrgetter("partition", "offset")
    ):
        version_and_role = prediction.version, prediction.role
        if version_and_role not in open_until_us or prediction.arrival_us > open_until_us[version_and_role]:
            case.predictions[*version_and_role, str(prediction.partition), str(prediction.offset)] = prediction
        open_until_us[version_and_role] = max(prediction.closes_us(policy), open_until_us.get(version_and_role, 0))
    for label in all_records:
        if isinstance(label, LabelEvent):
            case.add_label(label)
    return case


class ClockInterval(NamedTuple):
    """The clock before and after a batch."""

    before_us: int
    after_us: int


def compute_changes(
    known_records: Iterable[PredictionEvent | LabelEvent],
    new_records: Iterable[PredictionEvent | LabelEvent],
    clock: ClockInterval,
    policy: LabelPolicy,
) -> Iterator[OutcomeChange]:
    """The changes of one id by new records and the clock."""
    known_records = list(known_records)
    before = outcome_statuses(build_case(known_records, policy), policy, clock.before_us)
    after = outcome_statuses(build_case([*known_records, *new_records], policy), policy, clock.after_us)
    return diff_statuses(before, after)


def rows_up_to(
    predictions: DataFrame, labels: DataFrame, previous_batch: JoinBatch, next_batch: JoinBatch
) -> DataFrame:
    """All rows up to the end of a batch, each marked if it is new."""
    prediction_part = _rows_up_to(predictions, previous_batch.predictions, next_batch.predictions)
    return prediction_part.unionByName(_rows_up_to(labels, previous_batch.labels, next_batch.labels))


def _rows_up_to(rows: DataFrame, previous_offsets: TableOffsets, next_offsets: TableOffsets) -> DataFrame:
    offset, partition = F.col("offset"), F.col("partition")
    known_rows = rows.where(offset <= last_offset_column(next_offsets.places, partition))
    return known_rows.withColumn("is_new", offset > last_offset_column(previous_offsets.places, partition))


def batch_changes(rows: DataFrame, clock: ClockInterval, policy: LabelPolicy) -> DataFrame:
    """The changes of a batch, given all rows up to its end."""
    closing_us = closing_time(policy)
    is_due = (F.col("kind") == PREDICTION_KIND) & (closing_us >= clock.before_us) & (closing_us < clock.after_us)
    touched_ids = rows.where(F.col("is_new") | is_due).select("id").distinct()
    touched_rows = rows.join(touched_ids, "id", "left_semi").repartition("id").sortWithinPartitions("id")
    return touched_rows.mapInArrow(_change_mapper(clock, policy), CHANGE_COLUMNS)


def closing_time(policy: LabelPolicy) -> Column:
    """When a prediction closes."""
    return F.greatest(F.col("time_us") + policy.retention_us, F.col("arrival_us"))


def newest_arrivals(rows: DataFrame) -> tuple[int, int]:
    """The newest arrivals of predictions and labels among new rows."""
    newest_rows = rows.where("is_new").groupBy("kind").agg(F.max("arrival_us").alias("newest_us")).collect()
    newest_by_kind = {row.kind: row.newest_us for row in newest_rows}
    return newest_by_kind.get(PREDICTION_KIND, 0), newest_by_kind.get(LABEL_KIND, 0)


def limit_clock(rows: DataFrame, clock: ClockInterval, policy: LabelPolicy, max_closing: int) -> int:
    """The clock of a batch, limited to a maximum of closing predictions."""
    closing_rows = rows.where(F.col("kind") == PREDICTION_KIND).select(closing_time(policy).alias("closes_us"))
    closing_rows = closing_rows.where((F.col("closes_us") >= clock.before_us) & (F.col("closes_us") < clock.after_us))
    limit_row = closing_rows.orderBy("closes_us").limit(max_closing).agg(F.count("*"), F.max("closes_us")).collect()[0]
    return clock.after_us if limit_row[0] < max_closing else int(limit_row[1]) + 1


class _ReplayRow(NamedTuple):
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


def _change_mapper(
    clock: ClockInterval, policy: LabelPolicy
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The changes of rows that are sorted by id: only the rows of one id are in memory at a time."""

    def map_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        change_rows = _changes_by_id(_iterate_rows(batches), clock, policy)
        while chunk := list(islice(change_rows, ROWS_PER_BATCH)):
            yield pa.RecordBatch.from_pylist(chunk, CHANGE_SCHEMA)

    return map_batches


def _iterate_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[_ReplayRow]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in _ReplayRow._fields)
        yield from map(_ReplayRow._make, zip(*columns, strict=True))


def _changes_by_id(
    rows: Iterator[_ReplayRow], clock: ClockInterval, policy: LabelPolicy
) -> Iterator[dict[str, object]]:
    for event_id, id_rows in groupby(rows, attrgetter("id")):
        known_records: list[PredictionEvent | LabelEvent] = []
        new_records: list[PredictionEvent | LabelEvent] = []
        for row in id_rows:
            (new_records if row.is_new else known_records).append(to_record(row))
        for change in compute_changes(known_records, new_records, clock, policy):
            yield {"id": event_id, **change._asdict()}
