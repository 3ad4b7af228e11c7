"""Reads the state of queries: its size, without Spark, and the state of a key, with Spark."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.app import App
from headrace.declare.durations import duration_text
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.declare.streams.schema import Kind
from headrace.errors import HeadraceError
from headrace.spark.checkpoints.checkpoint_files import list_batch_ids
from headrace.spark.stateful.operation_versions import plan_operation_version
from headrace.spark.stateful.paged_state import PAGES_STATE
from headrace.spark.tiles.query_versions import QueryVersion, QueryVersionPlan, plan_query_versions
from headrace.spark.tiles.tile_query import TilePlan

TILE_OPERATOR = "stateStoreSave"  # Spark's name of the operator that folds tiles


class StateMissing(HeadraceError):
    """State that does not exist, or no longer."""


@dataclass(frozen=True)
class QueryStateSummary:
    """A stateful query: its checkpoint, its last batch, and the rows and bytes of that."""

    query: str
    checkpoint: Path
    batch: int
    rows: int
    bytes: int
    operation: StreamOperation | None = None
    tiles: TilePlan | None = None

    def to_json(self) -> dict[str, Any]:
        return {"query": self.query, "batch": self.batch, "rows": self.rows, "bytes": self.bytes}


def list_query_states(app: App, state_folder: Path) -> list[QueryStateSummary]:
    """The stateful queries of an app that have started."""
    return [*_tile_query_states(app, state_folder), *_operation_states(app, state_folder)]


def _tile_query_states(app: App, state_folder: Path) -> Iterator[QueryStateSummary]:
    for stream in app.streams:
        plan: QueryVersionPlan = plan_query_versions(stream, app.views_of(stream), state_folder, stream.partitions)
        for version in plan.versions:
            checkpoint = state_folder.resolve() / "checkpoints" / stream.name / f"tiles-{version.number}"
            yield from _measure_state(version.build_query_name(stream), checkpoint, tiles=_to_tile_plan(plan, version))


def _to_tile_plan(plan: QueryVersionPlan, version: QueryVersion) -> TilePlan:
    return TilePlan(plan.stream, version.views)


def _operation_states(app: App, state_folder: Path) -> Iterator[QueryStateSummary]:
    for derivation in app.derivations:
        if isinstance(derivation, StreamOperation):
            checkpoint = plan_operation_version(derivation, state_folder).checkpoint(state_folder)
            yield from _measure_state(derivation.query, checkpoint, operation=derivation)


def _measure_state(query: str, checkpoint: Path, **details: Any) -> Iterator[QueryStateSummary]:
    batch = max(list_batch_ids(checkpoint / "commits"), default=None)
    if batch is not None:
        sizes = [_read_size(file) for file in _state_files(checkpoint, batch)]
        yield QueryStateSummary(
            query, checkpoint, batch, sum(rows for rows, _ in sizes), sum(size for _, size in sizes), **details
        )


def _state_files(checkpoint: Path, batch: int) -> Iterator[Path]:
    """The files in which Spark describes the state of a batch: one for each partition of each store."""
    commit = json.loads((checkpoint / "commits" / str(batch)).read_text().splitlines()[1])
    for operator, partitions in (commit.get("stateUniqueIds") or {}).items():
        for state_id in (one for ids in partitions for one in ids):
            yield from (checkpoint / "state" / operator).rglob(f"*_{state_id}.zip")


def _read_size(file: Path) -> tuple[int, int]:
    with ZipFile(file) as archive:
        metadata = json.loads(archive.read("metadata").splitlines()[1])
    return metadata["numKeys"], sum(sst_file["sizeBytes"] for sst_file in metadata["sstFiles"])


def find_batch(query_state: QueryStateSummary, requested: str | None, at_us: int | None) -> int:
    """The batch of a number, or the last one planned by a time; raises where its state is gone."""
    batch_ids = sorted(list_batch_ids(query_state.checkpoint / "commits"))
    candidates = (
        [query_state.batch]
        if requested is None
        else [int(requested)]
        if at_us is None
        else _batches_planned_by(query_state.checkpoint, batch_ids, at_us)
    )
    if not candidates or candidates[-1] not in batch_ids:
        raise StateMissing(
            f"{query_state.query} has no state of {requested}. Its batches {batch_ids[0]} to {batch_ids[-1]} are "
            f"there: ask for one."
        )
    return candidates[-1]


def _batches_planned_by(checkpoint: Path, batch_ids: Sequence[int], at_us: int) -> list[int]:
    def planned_us(batch: int) -> int:
        return (
            int(json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[1])["batchTimestampMs"])
            * 1000
        )

    return [batch for batch in batch_ids if planned_us(batch) <= at_us]


def read_key_state(spark: SparkSession, query_state: QueryStateSummary, key: str, batch: int) -> list[dict[str, Any]]:
    """The state of a key, as of a batch."""
    if query_state.operation is not None:
        return _read_operation_key(spark, query_state, query_state.operation, key, batch)
    return _read_tile_key(spark, query_state, key, batch)


def _read_operation_key(
    spark: SparkSession, query_state: QueryStateSummary, operation: StreamOperation, key: str, batch: int
) -> list[dict[str, Any]]:
    column_kinds = [operation.inputs[0].schema.column(name, operation.name).kind for name in operation.by[0]]
    key_json = orjson.dumps(_parse_key(key, column_kinds)).decode()
    page_entries = F.from_json(F.col("user_map_value.keys").cast("string"), "map<string, array<string>>")
    rows = (
        _read_state_store(spark, query_state.checkpoint, batch, stateVarName=PAGES_STATE)
        .select(page_entries[key_json].alias("kept"))
        .dropna()
        .collect()
    )
    return [
        {"key": json.loads(key_json), "due_at_us": int(timer_us), "kept": json.loads(encoded_state)}
        for (timer_us, encoded_state) in (row.kept for row in rows)
    ]


def _read_tile_key(spark: SparkSession, query_state: QueryStateSummary, key: str, batch: int) -> list[dict[str, Any]]:
    plan = query_state.tiles
    if plan is None:
        return []
    operators = spark.read.format("state-metadata").load(query_state.checkpoint.as_uri())
    (operator_id,) = {row.operatorId for row in operators.where(F.col("operatorName") == TILE_OPERATOR).collect()}
    rows = _read_state_store(spark, query_state.checkpoint, batch, operatorId=operator_id)
    key_rows = rows.where(_has_entity(plan, key)).select("key", F.to_json("value").alias("partials"))
    return [
        {**_describe_tile(plan, row.key.kind), "until": row.key.end.isoformat(), "partials": json.loads(row.partials)}
        for row in key_rows.orderBy("key.kind", "key.end").collect()
    ]


def _has_entity(plan: TilePlan, key: str) -> Column:
    """Whether a row is of a key, whose columns depend on the view."""
    has_entity = F.lit(False)
    for number, tile_kind in enumerate(plan.tile_kinds):
        column_kinds = [column.kind for column in tile_kind.view.entity]
        entity = {f"e{index}": value for index, value in enumerate(_parse_key(key, column_kinds))}
        has_entity = has_entity | (
            (F.col("key.kind") == number) & (F.col("key.entity") == orjson.dumps(entity).decode())
        )
    return has_entity


def _describe_tile(plan: TilePlan, number: int) -> dict[str, str]:
    tile_kind = plan.tile_kinds[number]
    return {"view": tile_kind.view.name, "hop": duration_text(tile_kind.layout.hop_us)}


def _read_state_store(spark: SparkSession, checkpoint: Path, batch: int, **options: Any) -> DataFrame:
    reader = spark.read.format("statestore").option("batchId", batch)
    return reader.options(**options).load(checkpoint.as_uri())


def _parse_key(key: str, column_kinds: Sequence[Kind]) -> list[Any]:
    """A key from the command line: one value as text, several as a JSON list."""
    if len(column_kinds) > 1:
        return list(json.loads(key))
    return [int(key) if column_kinds[0] in {Kind.INTEGER, Kind.TIMESTAMP} else key]
