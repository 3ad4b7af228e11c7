"""What queries keep: how much of it, without Spark, and what of a key, with it."""

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
from headrace.declare.derivation import Operation
from headrace.declare.durations import duration_text
from headrace.declare.schema import Kind
from headrace.errors import HeadraceError
from headrace.stream.checkpoints import batches_in
from headrace.stream.generations import Generation, Generations, plan_generations
from headrace.stream.operations import plan_run
from headrace.stream.shelves import ROWS
from headrace.stream.tiles import TilePlan

FOLD = "stateStoreSave"  # Spark's name of what folds tiles


class NotKept(HeadraceError):
    """State that is not there, or no longer."""


@dataclass(frozen=True)
class Kept:
    """A query with state: where it is, its last batch, and how many rows and bytes that has."""

    query: str
    checkpoint: Path
    batch: int
    rows: int
    bytes: int
    operation: Operation | None = None
    tiles: TilePlan | None = None

    def as_json(self) -> dict[str, Any]:
        return {"query": self.query, "batch": self.batch, "rows": self.rows, "bytes": self.bytes}


def kept_by(app: App, state: Path) -> list[Kept]:
    """The queries of an app that keep something, as far as they have begun."""
    return [*_of_tiles(app, state), *_of_operations(app, state)]


def _of_tiles(app: App, state: Path) -> Iterator[Kept]:
    for stream in app.streams:
        plan: Generations = plan_generations(stream, app.views_of(stream), state, stream.partitions)
        for generation in plan.running:
            checkpoint = state.resolve() / "checkpoints" / stream.name / f"tiles-{generation.number}"
            yield from _sized(generation.query(stream), checkpoint, tiles=_tiles(plan, generation))


def _tiles(plan: Generations, generation: Generation) -> TilePlan:
    return TilePlan(plan.stream, generation.views)


def _of_operations(app: App, state: Path) -> Iterator[Kept]:
    for made_by in app.derivations:
        if isinstance(made_by, Operation):
            checkpoint = plan_run(made_by, state).checkpoint(state)
            yield from _sized(made_by.query, checkpoint, operation=made_by)


def _sized(query: str, checkpoint: Path, **what: Any) -> Iterator[Kept]:
    batch = max(batches_in(checkpoint / "commits"), default=None)
    if batch is not None:
        sizes = [_size(file) for file in _files(checkpoint, batch)]
        yield Kept(query, checkpoint, batch, sum(rows for rows, _ in sizes), sum(size for _, size in sizes), **what)


def _files(checkpoint: Path, batch: int) -> Iterator[Path]:
    """The files in which Spark describes the state of a batch: one for each partition of each store."""
    told = json.loads((checkpoint / "commits" / str(batch)).read_text().splitlines()[1])
    for operator, partitions in (told.get("stateUniqueIds") or {}).items():
        for one in (one for ids in partitions for one in ids):
            yield from (checkpoint / "state" / operator).rglob(f"*_{one}.zip")


def _size(file: Path) -> tuple[int, int]:
    with ZipFile(file) as described:
        told = json.loads(described.read("metadata").splitlines()[1])
    return told["numKeys"], sum(one["sizeBytes"] for one in told["sstFiles"])


def batch_at(kept: Kept, at: str | None, at_us: int | None) -> int:
    """The batch of a number, or the last one that was planned by a time; refuses one whose state is gone."""
    there = sorted(batches_in(kept.checkpoint / "commits"))
    wanted = [kept.batch] if at is None else [int(at)] if at_us is None else _by_then(kept.checkpoint, there, at_us)
    if not wanted or wanted[-1] not in there:
        raise NotKept(
            f"{kept.query} has no state of {at}. Its batches {there[0]} to {there[-1]} are there: ask for one."
        )
    return wanted[-1]


def _by_then(checkpoint: Path, batches: Sequence[int], at_us: int) -> list[int]:
    def planned_us(batch: int) -> int:
        return (
            int(json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[1])["batchTimestampMs"])
            * 1000
        )

    return [batch for batch in batches if planned_us(batch) <= at_us]


def of_key(spark: SparkSession, kept: Kept, key: str, batch: int) -> list[dict[str, Any]]:
    """What a query keeps for a key, at a batch."""
    if kept.operation is not None:
        return _of_operation(spark, kept, kept.operation, key, batch)
    return _of_tile(spark, kept, key, batch)


def _of_operation(spark: SparkSession, kept: Kept, operation: Operation, key: str, batch: int) -> list[dict[str, Any]]:
    kinds = [operation.inputs[0].schema.column(name, operation.name).kind for name in operation.by[0]]
    named = orjson.dumps(_values(key, kinds)).decode()
    keys = F.from_json(F.col("user_map_value.keys").cast("string"), "map<string, array<string>>")
    found = (
        _store(spark, kept.checkpoint, batch, stateVarName=ROWS).select(keys[named].alias("kept")).dropna().collect()
    )
    return [
        {"key": json.loads(named), "due_at_us": int(look_us), "kept": json.loads(packed)}
        for (look_us, packed) in (row.kept for row in found)
    ]


def _of_tile(spark: SparkSession, kept: Kept, key: str, batch: int) -> list[dict[str, Any]]:
    plan = kept.tiles
    if plan is None:
        return []
    operators = spark.read.format("state-metadata").load(kept.checkpoint.as_uri())
    (number,) = {row.operatorId for row in operators.where(F.col("operatorName") == FOLD).collect()}
    rows = _store(spark, kept.checkpoint, batch, operatorId=number)
    of_key = rows.where(_is_entity(plan, key)).select("key", F.to_json("value").alias("partials"))
    return [
        {**_tile_of(plan, row.key.kind), "until": row.key.end.isoformat(), "partials": json.loads(row.partials)}
        for row in of_key.orderBy("key.kind", "key.end").collect()
    ]


def _is_entity(plan: TilePlan, key: str) -> Column:
    """Whether a row is of a key: which columns make it depends on the view."""
    is_it = F.lit(False)
    for number, kind in enumerate(plan.kinds):
        kinds = [column.kind for column in kind.view.entity]
        entity = {f"e{place}": value for place, value in enumerate(_values(key, kinds))}
        is_it = is_it | ((F.col("key.kind") == number) & (F.col("key.entity") == orjson.dumps(entity).decode()))
    return is_it


def _tile_of(plan: TilePlan, number: int) -> dict[str, str]:
    kind = plan.kinds[number]
    return {"view": kind.view.name, "hop": duration_text(kind.layout.hop_us)}


def _store(spark: SparkSession, checkpoint: Path, batch: int, **which: Any) -> DataFrame:
    reader = spark.read.format("statestore").option("batchId", batch)
    return reader.options(**which).load(checkpoint.as_uri())


def _values(key: str, kinds: Sequence[Kind]) -> list[Any]:
    """A key as it is typed: one value as its text, several as a JSON list."""
    if len(kinds) > 1:
        return list(json.loads(key))
    return [int(key) if kinds[0] in {Kind.INTEGER, Kind.TIMESTAMP} else key]
