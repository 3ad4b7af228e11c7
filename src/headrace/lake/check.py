"""`headrace check`: what was served, replayed in batch on Spark and compared value by value."""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.names import gold_table
from headrace.declare.operands import REQUEST
from headrace.declare.views import View
from headrace.lake.checking import Compared, Findings, check
from headrace.lake.landing import Landing, served
from headrace.lake.logs import log_of
from headrace.lake.lookback import known_name, places_of
from headrace.lake.past import require_of_the_past
from headrace.lake.rows import records, rows
from headrace.lake.tables import table_rows
from headrace.lake.training import (
    BUCKET,
    LOG,
    bucket,
    each_once,
    entity_columns,
    events_of,
    plain_arithmetic,
    read_events,
)
from headrace.tiles.layout import lives_of

ANSWER = "at bigint, known array<array<bigint>>, versions array<string>, request string, row string"
FINDINGS = pa.schema([("findings", pa.binary())])


def check_served(spark: SparkSession, view: View, source: str) -> Findings:
    """Everything that was served of a view and kept, against the events of the lake or of the log."""
    require_of_the_past(view)
    with plain_arithmetic(spark):
        once = [each_once(events_of(spark, stream, source), stream).events for stream in view.streams]
        events = read_events(once, view, "arrival")
        asked = _spine(_served_rows(spark, served(view), source), view)
        buckets = spark.sparkContext.defaultParallelism
        by_bucket = [frame.withColumn(BUCKET, bucket(view, buckets)).groupBy(BUCKET) for frame in (asked, events)]
        found = by_bucket[0].cogroup(by_bucket[1]).applyInArrow(_check(view), "findings binary").collect()
    total = Findings()
    for row in found:
        total.add(_decoded(bytes(row["findings"])))
    return total


def _served_rows(spark: SparkSession, landing: Landing, source: str) -> DataFrame:
    if source.startswith(LOG):
        return rows(records(spark, source.removeprefix(LOG), subscribe=landing.topic), landing, {})
    return table_rows(spark, Path(source), landing)


def _spine(answers: DataFrame, view: View) -> DataFrame:
    """Answers of the layout that is declared now, as `checking` takes them."""
    answer = F.from_json("value", ANSWER)
    entity = ", ".join(f"`{column.name}` {column.type}" for column in view.entity)
    asked = answers.select(answer.alias("a")).select("a.*", F.from_json("a.row", entity).alias("e"))
    fields = ", ".join(f"`{column.name.removeprefix(REQUEST)}` {column.type}" for column in view.requested)
    request = F.from_json("request", fields) if fields else None
    same = F.col("versions") == F.array(*(F.lit(layout.version) for layout in lives_of(view)))
    return asked.where(same).select(
        *entity_columns(view, {name: F.col("e").getField(name) for name in view.by}),
        F.col("at").alias("hr_at"),
        F.col("row").alias("hr_row"),
        *(
            F.col("known")[number][part].alias(known_name(name, *place))
            for number, place in enumerate(places_of(view))
            for part, name in enumerate(("events", "known"))
        ),
        *(
            request.getField(column.name.removeprefix(REQUEST)).alias(f"r{number}")
            for number, column in enumerate(view.requested)
            if request is not None
        ),
    )


def _check(view: View) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def check_bucket(answers: pa.Table, events: pa.Table) -> pa.Table:
        if not len(answers):
            return FINDINGS.empty_table()
        return pa.table({"findings": [_encoded(check(view, events, answers))]}, FINDINGS)

    return check_bucket


def _encoded(findings: Findings) -> bytes:
    # Not orjson: differences may be infinite, and sums pass 64 bits.
    return json.dumps(findings.as_json(), default=str).encode()


def _decoded(written: bytes) -> Findings:
    found = json.loads(written)
    for path in ("by_arrival", "by_event"):
        found[path] = {name: Compared(**counts) for name, counts in found[path].items()}
    return Findings(**found)


def keep_findings(findings: Findings, view: View, lake: str) -> None:
    """Add what was found to the lake: a row a feature, with when it was checked."""
    rows = [
        {"checked_at": datetime.now(UTC), "feature": name, **asdict(compared)}
        for name, compared in findings.by_arrival.items()
    ]
    if rows:
        log_of(Path(lake).resolve() / gold_table(view.name, "checks")).append(pa.Table.from_pylist(rows))
