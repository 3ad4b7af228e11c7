"""`headrace check`: recomputes served values in batch on Spark and compares them one by one."""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import View
from headrace.declare.names import gold_table
from headrace.lake.consistency.value_comparison import CheckFindings, ComparisonCounts, compare_served
from headrace.lake.event_reader import read_table_rows
from headrace.lake.formats.table_format import open_table_format
from headrace.lake.historical_features import hop_streams, known_column
from headrace.lake.ingestion.record_rows import read_records, to_new_rows
from headrace.lake.ingestion.table_mapping import TableMapping, served_mapping
from headrace.lake.point_in_time_support import require_point_in_time_support
from headrace.lake.training.training_set import (
    BUCKET_COLUMN,
    LOG_PREFIX,
    bucket_column,
    deduplicate_events,
    disable_ansi_mode,
    entity_columns,
    read_source_events,
    select_view_events,
)
from headrace.tiles.layout import live_layouts

ANSWER_SCHEMA = "at bigint, known array<array<bigint>>, versions array<string>, request string, row string"
FINDINGS_SCHEMA = pa.schema([("findings", pa.binary())])


def check_served(spark: SparkSession, view: View, source: str) -> CheckFindings:
    """Check every kept served row of a view against the events of the lake or of the log."""
    require_point_in_time_support(view)
    with disable_ansi_mode(spark):
        deduplicated = [
            deduplicate_events(read_source_events(spark, stream, source), stream).events for stream in view.streams
        ]
        events = select_view_events(deduplicated, view, "arrival")
        spine = _to_spine(_read_served_rows(spark, served_mapping(view), source), view)
        bucket_count = spark.sparkContext.defaultParallelism
        grouped = [
            frame.withColumn(BUCKET_COLUMN, bucket_column(view, bucket_count)).groupBy(BUCKET_COLUMN)
            for frame in (spine, events)
        ]
        bucket_rows = grouped[0].cogroup(grouped[1]).applyInArrow(_make_bucket_check(view), "findings binary").collect()
    total = CheckFindings()
    for row in bucket_rows:
        total.add(_decode_findings(bytes(row["findings"])))
    return total


def _read_served_rows(spark: SparkSession, mapping: TableMapping, source: str) -> DataFrame:
    if source.startswith(LOG_PREFIX):
        return to_new_rows(read_records(spark, source.removeprefix(LOG_PREFIX), subscribe=mapping.topic), mapping, {})
    return read_table_rows(spark, Path(source), mapping)


def _to_spine(served_rows: DataFrame, view: View) -> DataFrame:
    """Served rows of the current layout, as a spine for `compare_served`."""
    served_json = F.from_json("value", ANSWER_SCHEMA)
    entity = ", ".join(f"`{column.name}` {column.type}" for column in view.entity)
    parsed = served_rows.select(served_json.alias("a")).select("a.*", F.from_json("a.row", entity).alias("e"))
    fields = ", ".join(f"`{column.name.removeprefix(REQUEST_PREFIX)}` {column.type}" for column in view.request_columns)
    request = F.from_json("request", fields) if fields else None
    is_current_layout = F.col("versions") == F.array(*(F.lit(layout.version) for layout in live_layouts(view)))
    return parsed.where(is_current_layout).select(
        *entity_columns(view, {name: F.col("e").getField(name) for name in view.by}),
        F.col("at").alias("hr_at"),
        F.col("row").alias("hr_row"),
        *(
            F.col("known")[number][part_index].alias(known_column(name, *hop_stream))
            for number, hop_stream in enumerate(hop_streams(view))
            for part_index, name in enumerate(("events", "known"))
        ),
        *(
            request.getField(column.name.removeprefix(REQUEST_PREFIX)).alias(f"r{number}")
            for number, column in enumerate(view.request_columns)
            if request is not None
        ),
    )


def _make_bucket_check(view: View) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def check_bucket(served: pa.Table, events: pa.Table) -> pa.Table:
        if not len(served):
            return FINDINGS_SCHEMA.empty_table()
        return pa.table({"findings": [_encode_findings(compare_served(view, events, served))]}, FINDINGS_SCHEMA)

    return check_bucket


def _encode_findings(findings: CheckFindings) -> bytes:
    # Not orjson: differences may be infinite, and sums pass 64 bits.
    return json.dumps(findings.to_json(), default=str).encode()


def _decode_findings(encoded: bytes) -> CheckFindings:
    fields = json.loads(encoded)
    for path in ("by_arrival", "by_event"):
        fields[path] = {name: ComparisonCounts(**counts) for name, counts in fields[path].items()}
    return CheckFindings(**fields)


def save_findings(findings: CheckFindings, view: View, lake: str) -> None:
    """Append the findings to the lake: a row for each feature, with the time of the check."""
    rows = [
        {"checked_at": datetime.now(UTC), "feature": name, **asdict(counts)}
        for name, counts in findings.by_arrival.items()
    ]
    if rows:
        open_table_format(Path(lake).resolve() / gold_table(view.name, "checks")).append_rows(
            pa.Table.from_pylist(rows)
        )
