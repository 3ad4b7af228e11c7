"""Some of the queries in Headrace's own declarations: a derived stream, and windows and a join as operators.

Events are recorded history: each arrives when it happened.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headrace as hr
from bench.nexmark.catalogue import STREAMS
from bench.nexmark.queries import EURO


def _recorded(name: str, key: str) -> hr.Stream:
    schema = STREAMS[name].replace("_ms bigint", "_ms timestamp")
    return hr.Stream(name, schema=schema, id="number", key=key, time="happened_ms", arrival="happened_ms")


auctions, bids = _recorded("auctions", "id"), _recorded("bids", "auction")


@hr.derive(
    bids,
    schema="number bigint, auction bigint, bidder bigint, euros double, happened_ms timestamp, extra string",
)
def q1(bids: DataFrame) -> DataFrame:
    """Every bid in euros."""
    return bids.select(
        "number", "auction", "bidder", (F.col("price") * EURO).alias("euros"), "happened_ms", "extra", "known_at"
    )


q11 = hr.windowed("q11", bids, by="bidder", over=hr.Session("10s"), bids=hr.count())
q12 = hr.windowed("q12", bids, by="bidder", over=hr.Tumbling("10s"), bids=hr.count())
q17 = hr.windowed(
    "q17",
    bids,
    by="auction",
    over=hr.Tumbling("1d"),
    emit="update",
    bids=hr.count(),
    cheap_bids=hr.count(where="price < 10000"),
    middling_bids=hr.count(where="price >= 10000 AND price < 1000000"),
    dear_bids=hr.count(where="price >= 1000000"),
    least=hr.min("price"),
    most=hr.max("price"),
    mean=hr.mean("price"),
    total=hr.sum("price"),
)
q20 = hr.join("q20", bids, auctions, on=("auction", "id"), within=("7d", "7d"))  # of all categories
