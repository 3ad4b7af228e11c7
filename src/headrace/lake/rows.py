"""Records of the log as rows of a table, each once."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.lake.landing import OFFSET, PARTITION, Landing
from headrace.log.dialects import spark_words
from headrace.stream.events import event_of, parsed
from headrace.stream.records import RECORDS_A_POLL

ORDER = "hr_order"  # the offset in the topic that is read; a copy's hr_offset is that of its original


def records(spark: SparkSession, broker: str, **which: str) -> DataFrame:
    """Records of the log; `which` of them in the words of Spark's Kafka source."""
    reader = spark.read.format("kafka").options(**spark_words(broker)).option("includeHeaders", "true")
    return reader.option("kafka.max.poll.records", RECORDS_A_POLL).options(**which).load()


def rows(read: DataFrame, landing: Landing, landed: Mapping[int, int]) -> DataFrame:
    """The table's rows of those records that have not landed yet; `landed` is the last hr_offset of each partition."""
    placed = typed(read, landing, F.col("offset").alias(ORDER))
    if not landing.may_replay:
        return placed.drop(ORDER)
    news = placed.where(
        F.col(OFFSET) > last_place(landed, F.col(PARTITION))
    )  # also drops what no gate wrote: it has no offset
    before = Window.partitionBy(PARTITION).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, -1)
    ahead = F.coalesce(F.max(OFFSET).over(before), F.lit(-1))
    return news.withColumn("ahead", ahead).where(F.col(OFFSET) > F.col("ahead")).drop("ahead", ORDER)


def typed(read: DataFrame, landing: Landing, *more: Column) -> DataFrame:
    """Records as the rows of a table, replays among them."""
    if landing.event_of is not None:
        read = read.withColumn("event", event_of(parsed(F.col("value"), landing.event_of), landing.event_of))
    values = (F.expr(column.value).cast(column.type).alias(column.name) for column in landing.columns)
    return read.select(*values, *more)


def last_place(lasts: Mapping[int, int], partition: Column) -> Column:
    """The last offset of a row's partition; −1 where it has none."""
    offsets = [lasts.get(number, -1) for number in range(max(lasts, default=-1) + 1)]
    return F.coalesce(F.get(F.lit(offsets or [-1]).cast("array<bigint>"), partition), F.lit(-1))
