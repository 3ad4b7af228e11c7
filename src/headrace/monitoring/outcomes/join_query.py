"""The label join as a streaming query: a model's predictions, its labels, and the clock, as rows of one shape.

fraud.predictions ──┐
chargebacks.clean ──┼──▶ rows by bucket of their id ──▶ cases
fraud.clock ────────┘    (the clock has no id: only it advances Spark's watermark)
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.durations import UNITS_US
from headrace.declare.models.label_policy import label_policy_of
from headrace.lake.ingestion.record_rows import to_table_rows
from headrace.monitoring.outcomes.join_inputs import LabelJoinInputs, label_rows, prediction_rows
from headrace.monitoring.outcomes.join_processor import CHANGE_COLUMNS, CLOCK_KIND, LabelJoinProcessor, timer_grain_us
from headrace.spark.execution.watermark_delay import DRAINING_MARGIN_US
from headrace.spark.gate.kafka_source import read_record_stream

BUCKET_COUNT = 64
# Recorded time passes faster than the clock: a batch has days of it, and what is due within hours is due at once.
RECORDED_BUCKET_COUNT, RECORDED_GRAIN_US = 16, 6 * UNITS_US["h"]
PARTITIONS = 2
CLOCK_COLUMN = "clocked"


def outcome_changes(spark: SparkSession, inputs: LabelJoinInputs) -> DataFrame:
    """The changes of a model's outcomes, as a stream."""
    predictions_mapping, labels_mapping = inputs.mappings
    predictions = prediction_rows(
        to_table_rows(_read_records(spark, inputs, predictions_mapping.topic), predictions_mapping), inputs
    )
    clean_labels = label_rows(to_table_rows(_read_records(spark, inputs, labels_mapping.topic), labels_mapping), inputs)
    rows = _with_clock_column(predictions, inputs).unionByName(_with_clock_column(clean_labels, inputs))
    if not inputs.is_recorded:  # the first input of a union defines the watermark column
        rows = _clock_rows(spark, inputs).unionByName(rows)
    bucket = F.pmod(F.xxhash64("id"), F.lit(_bucket_count(inputs))).cast("int")
    return (
        rows.withColumn("bucket", bucket)
        .groupBy("bucket")
        .transformWithState(
            LabelJoinProcessor(label_policy_of(inputs.label_declaration), _timer_grain_us(inputs)),
            CHANGE_COLUMNS,
            "Update",
            "EventTime",
        )
    )


def _bucket_count(inputs: LabelJoinInputs) -> int:
    """The number of buckets of ids: a batch makes this many calls."""
    return RECORDED_BUCKET_COUNT if inputs.is_recorded else BUCKET_COUNT


def _timer_grain_us(inputs: LabelJoinInputs) -> int:
    """The resolution of timers."""
    return RECORDED_GRAIN_US if inputs.is_recorded else timer_grain_us(inputs.label_declaration.within_us)


def _read_records(spark: SparkSession, inputs: LabelJoinInputs, topic: str, start: str = "earliest") -> DataFrame:
    return read_record_stream(spark, inputs.broker, [topic], start, inputs.max_batch_records)


def _with_clock_column(rows: DataFrame, inputs: LabelJoinInputs) -> DataFrame:
    if not inputs.is_recorded:
        return rows.withColumn(CLOCK_COLUMN, F.lit(None).cast("timestamp"))
    clocked_rows = rows.withColumn(CLOCK_COLUMN, F.timestamp_micros("arrival_us"))
    # Partitions, and scorers behind gates, may be this far apart where recorded time passes faster than the clock.
    return clocked_rows.withWatermark(CLOCK_COLUMN, f"{DRAINING_MARGIN_US} microseconds")


def _clock_rows(spark: SparkSession, inputs: LabelJoinInputs) -> DataFrame:
    """The published clock; records from before this query are about input it has not read."""
    clock_records = _read_records(spark, inputs, inputs.model.clock, "latest").select(
        F.col("partition"),
        F.lit(CLOCK_KIND).alias("kind"),
        *(
            F.lit(None).cast("string").alias(name)
            for name in ("id", "version", "role", "decision", "segment", "features")
        ),
        *(F.lit(None).cast("bigint").alias(name) for name in ("time_us", "arrival_us", "offset")),
        F.lit(None).cast("double").alias("value"),
        F.timestamp_micros(F.col("value").cast("string").cast("bigint")).alias(CLOCK_COLUMN),
    )
    return clock_records.withWatermark(CLOCK_COLUMN, "0 seconds")
