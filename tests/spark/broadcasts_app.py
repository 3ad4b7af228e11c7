"""Bookings enriched from tables of their shop in three ways, and a view of each: all queries at once in one Spark."""

import os
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headrace as hr

SHOPS = Path(os.environ["SHOPS"])  # a folder: shops.parquet, and parts of the same table

bookings = hr.Stream(
    "bookings", schema="id string, shop string, at timestamp", id="id", key="shop", time="at", partitions=1
)
located = hr.enrich("located", bookings, hr.Table(str(SHOPS / "shops.parquet"), key="shop"), on="shop")
COLUMNS = "id string, shop string, city string, at timestamp"


@hr.derive(bookings, schema=COLUMNS, id="id", key="shop", time="at", lane="real-time")
def given(events: DataFrame) -> DataFrame:
    """A table of the function's own: Spark makes a partition of it for each task slot."""
    shops = events.sparkSession.createDataFrame([("a", "Oslo"), ("b", "Rome")], "shop string, city string")
    return events.join(F.broadcast(shops), "shop")


@hr.derive(bookings, schema=COLUMNS, id="id", key="shop", time="at", lane="real-time")
def read(events: DataFrame) -> DataFrame:
    """A table of many files, each of which is a partition."""
    spark = events.sparkSession
    spark.conf.set("spark.sql.files.openCostInBytes", 1 << 30)
    shops = spark.read.parquet(str(SHOPS / "parts"))
    return events.join(F.broadcast(shops), "shop")


@hr.features(bookings, by="shop")
class Sales:
    n = hr.count(windows="1h")


@hr.features(located, by="city")
class Located:
    n = hr.count(windows="1h")


@hr.features(given, by="city")
class Given:
    n = hr.count(windows="1h")


@hr.features(read, by="city")
class Read:
    n = hr.count(windows="1h")
