"""The same tiles by a plain Spark batch over the same topic, as written without Headrace.

python -m bench.batch BROKER FOLDER
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.app import CardSpend, payments
from headrace.aggregates.counts.distinct import DistinctPartial
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.spark.session.session import SparkSessionConfig, start_session
from headrace.tiles.layout import HopLayout, hop_layouts

SCHEMA = "payment_id string, card string, merchant string, amount double, at timestamp"


@dataclass(frozen=True)
class Batch:
    """The durations of the batch in a new and in a warm JVM, and its results."""

    first_seconds: float
    second_seconds: float
    tiles: int
    events: int


@click.command()
@click.argument("broker")
@click.argument("folder", type=click.Path(path_type=Path))
def main(broker: str, folder: Path) -> None:
    """Run the batch twice, and print its durations as JSON."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    place = SparkSessionConfig(None, len(os.sched_getaffinity(0)), jar_paths("spark"), folder / "scratch")
    spark = start_session(place)
    spark.conf.set("spark.sql.shuffle.partitions", payments.partitions)
    first, second = (_seconds(spark, broker, folder / name) for name in ("first", "second"))
    print(json.dumps(asdict(Batch(first, second, *_found(spark, folder / "second")))), flush=True)
    spark.stop()


def _seconds(spark: SparkSession, broker: str, target: Path) -> float:
    began = time.perf_counter()
    tiles(_records(spark, broker)).write.parquet(str(target))
    return time.perf_counter() - began


def _records(spark: SparkSession, broker: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": broker, "subscribe": payments.name, "startingOffsets": "earliest"}
    return spark.read.format("kafka").options(**options).load()


def tiles(records: DataFrame) -> DataFrame:
    """Parse, drop duplicates, and fold into the tiles of every hop."""
    parsed = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    layouts = hop_layouts(CardSpend)
    hops = F.explode(F.array(*(F.lit(layout.hop_us) for layout in layouts))).alias("hop")
    placed = parsed.dropDuplicates(["payment_id"]).select("*", hops)
    start = F.unix_micros("at") - F.pmod(F.unix_micros("at"), F.col("hop"))
    return placed.groupBy("card", "hop", start.alias("start")).agg(
        F.count("*").alias("n"),
        F.sum("amount").alias("spend"),
        F.max("amount").alias("largest"),
        *(_merchants(layout) for layout in layouts),
    )


def _merchants(layout: HopLayout) -> Column:
    """The sketch of tiles that have one."""
    lg_k = next((slot.size for slot in layout.slots if slot.partial == DistinctPartial()), None)
    if lg_k is None:
        return F.lit(None).cast("binary").alias(f"merchants_{layout.hop_us}")
    mine = F.when(F.col("hop") == layout.hop_us, F.col("merchant"))
    return F.hll_sketch_agg(mine, lg_k).alias(f"merchants_{layout.hop_us}")


def _found(spark: SparkSession, target: Path) -> tuple[int, int]:
    """The number of tiles, and of events in those of one hop."""
    written = spark.read.parquet(str(target))
    longest = max(layout.hop_us for layout in hop_layouts(CardSpend))
    of_one_hop = F.sum(F.when(F.col("hop") == longest, F.col("n")))
    row = written.agg(F.count("*").alias("tiles"), of_one_hop.alias("events")).first()
    return (row["tiles"], row["events"]) if row is not None else (0, 0)


if __name__ == "__main__":
    main()
