"""The queries as PySpark functions of the streams they read: the same function runs on a table and on a stream.

What is asked is what github.com/nexmark/nexmark asks; docs/nexmark.md says where an answer is made definite (of equal
prices the first bid is the higher) or is given for what has ended rather than again and again.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

EURO = 0.908
LONGEST = "20 seconds"  # no auction is open for longer, where there are at least 167 events a second
LATEST = 10  # bids of an auction, auctions of a seller
RANKS = {"cheap": (0, 10_000), "middling": (10_000, 1_000_000), "dear": (1_000_000, 1 << 60)}


def q0(bids: DataFrame) -> DataFrame:
    """Every bid, as it is."""
    return bids.select("number", "auction", "bidder", "price", "happened", "extra")


def q1(bids: DataFrame) -> DataFrame:
    """Every bid in euros."""
    return bids.select("number", "auction", "bidder", _euros(), "happened", "extra")


def q2(bids: DataFrame) -> DataFrame:
    """Bids for some auctions."""
    return bids.where(F.col("auction") % 123 == 0).select("number", "auction", "price")


def q3(auctions: DataFrame, persons: DataFrame) -> DataFrame:
    """Who sells in three states, in one category."""
    sold, sellers = auctions.where("category = 10"), persons.where("state IN ('OR', 'ID', 'CA')")
    joined = sold.alias("a").join(sellers.alias("p"), F.expr("a.seller = p.id"))
    return joined.select("a.id", "p.name", "p.city", "p.state")


def q4(winning: DataFrame) -> DataFrame:
    """The mean of the highest bids by category."""
    return winning.groupBy("category").agg(F.avg("price").alias("mean"))


def q5(bids: DataFrame) -> DataFrame:
    """Auctions with the most bids in ten seconds, every two seconds."""
    window = F.window("happened", "10 seconds", "2 seconds")
    counts = bids.groupBy(window, "auction").agg(F.count("*").alias("bids"))
    by_window = counts.groupBy("window").agg(
        F.max("bids").alias("most"), F.collect_list(F.struct("auction", "bids")).alias("counted")
    )
    hottest = F.filter("counted", lambda one: one["bids"] == F.col("most"))
    return by_window.select(F.col("window.end").alias("ends"), F.inline(hottest))


def q6(winning: DataFrame) -> DataFrame:
    """The mean of the highest bids of a seller's last ten auctions."""
    last = F.max_by("price", F.struct("ends", "id"), LATEST)
    total = F.aggregate("last", F.lit(0).cast("bigint"), lambda one, other: one + other)
    return winning.groupBy("seller").agg(last.alias("last")).select("seller", (total / F.size("last")).alias("mean"))


def q7(bids: DataFrame) -> DataFrame:
    """The highest bids of each ten seconds."""
    window, bid = F.window("happened", "10 seconds"), F.struct("number", "auction", "bidder", "price", "happened")
    prices = bids.groupBy(window, "price").agg(F.collect_list(bid).alias("bids"))
    highest = prices.groupBy("window").agg(F.max_by("bids", "price").alias("bids"))
    return highest.select(F.col("window.end").alias("ends"), F.inline("bids"))


def q8(auctions: DataFrame, persons: DataFrame) -> DataFrame:
    """Who is new and sells within the same ten seconds."""
    window = F.window("happened", "10 seconds").alias("window")
    new = persons.select(window, "id", "name")
    sellers = auctions.groupBy(window, "seller").agg(F.count("*").alias("auctions"))
    joined = new.alias("p").join(sellers.alias("a"), F.expr("p.window = a.window AND p.id = a.seller"))
    return joined.select(F.col("p.window.end").alias("ends"), "id", "name")


def q9(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """The highest bid of each auction that has ended."""
    in_time = "a.id = b.auction AND b.happened >= a.happened AND b.happened <= a.expires"
    # Implied, but only by it can Spark tell when the last bid for an auction must have come.
    in_reach = f"b.happened <= a.happened + INTERVAL {LONGEST}"
    joined = auctions.alias("a").join(bids.alias("b"), F.expr(f"{in_time} AND {in_reach}"))
    order = F.struct("b.price", -F.unix_micros("b.happened"), -F.col("b.number"))
    bid = F.max_by(F.struct("b.number", "b.bidder", "b.price", "b.happened"), order)
    ended = joined.groupBy("a.happened", "a.id", "a.item", "a.category", "a.seller", "a.expires").agg(bid.alias("bid"))
    opened, ends = F.col("happened").alias("opened"), F.col("expires").alias("ends")
    return ended.select("id", "item", "category", "seller", opened, ends, "bid.*")


def q11(bids: DataFrame) -> DataFrame:
    """How many bids a bidder makes without a pause of ten seconds."""
    session = F.session_window("happened", "10 seconds").alias("session")
    counts = bids.groupBy("bidder", session).agg(F.count("*").alias("bids"))
    return counts.select("bidder", F.col("session.start").alias("starts"), F.col("session.end").alias("ends"), "bids")


def q12(bids: DataFrame) -> DataFrame:
    """How many bids a bidder makes in each ten seconds."""
    window = F.window("happened", "10 seconds").alias("window")
    counts = bids.groupBy("bidder", window).agg(F.count("*").alias("bids"))
    return counts.select("bidder", F.col("window.end").alias("ends"), "bids")


def q14(bids: DataFrame) -> DataFrame:
    """Bids of some prices, with the part of the day, and how often a letter is in their text."""
    hour = F.hour("happened")
    part_of_day = (
        F.when(hour.between(8, 18), "day").when((hour <= 6) | (hour >= 20), "night").otherwise("between")
    ).alias("part_of_day")
    letters = (F.length("extra") - F.length(F.replace("extra", F.lit("c"), F.lit("")))).alias("letters_c")
    some = bids.select("number", "auction", "bidder", _euros(), part_of_day, "happened", "extra", letters)
    return some.where("euros > 1000000 AND euros < 50000000")


def q15(bids: DataFrame) -> DataFrame:
    """Bids, bidders and auctions of a day, by rank of price."""
    return bids.groupBy(_day()).agg(*_counts(), *_distinct("bidder"), *_distinct("auction"))


def q16(bids: DataFrame) -> DataFrame:
    """The same by channel."""
    minute = F.max(F.date_format("happened", "HH:mm")).alias("minute")
    return bids.groupBy("channel", _day()).agg(minute, *_counts(), *_distinct("bidder"), *_distinct("auction"))


def q17(bids: DataFrame) -> DataFrame:
    """Number and prices of an auction's bids of a day."""
    prices = (F.min("price").alias("least"), F.max("price").alias("most"))
    means = (F.avg("price").alias("mean"), F.sum("price").alias("total"))
    return bids.groupBy("auction", _day()).agg(*_counts(), *prices, *means)


def q18(bids: DataFrame) -> DataFrame:
    """The last bid of a bidder for an auction."""
    bid = F.struct("number", "price", "channel", "url", "happened", "extra")
    last = bids.groupBy("bidder", "auction").agg(F.max_by(bid, F.struct("happened", "number")).alias("bid"))
    return last.select("bidder", "auction", "bid.*")


def q19(bids: DataFrame) -> DataFrame:
    """The ten highest bids of an auction."""
    bid = F.struct("number", "bidder", "price", "channel", "url", "happened", "extra")
    highest = F.max_by(bid, F.struct("price", -F.col("number")), LATEST)
    listed = bids.groupBy("auction").agg(highest.alias("highest"))
    placed = listed.select("auction", F.posexplode("highest").alias("place", "bid"))
    return placed.select("auction", (F.col("place") + 1).alias("place"), "bid.*")


def q20(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Bids with the auction they are for, in one category."""
    a, b = auctions.where("category = 10").alias("a"), bids.alias("b")
    bid = ("number", "auction", "bidder", "price", "channel", "url", "happened", "extra")
    opened = F.col("a.happened").alias("opened")
    auction = ("item", "description", "initial_bid", "reserve", opened, "expires", "seller", "category")
    return b.join(a, F.expr("a.id = b.auction")).select(
        *(f"b.{name}" for name in bid), *(f"a.{name}" if isinstance(name, str) else name for name in auction)
    )


def q21(bids: DataFrame) -> DataFrame:
    """Bids with the number of their channel, which may be in the URL."""
    said = F.nullif(F.regexp_extract("url", "[&?]channel_id=([^&]*)", 1), F.lit(""))
    known = F.lower("channel")
    number = F.when(known == "apple", "0").when(known == "google", "1").when(known == "facebook", "2")
    channel_id = number.when(known == "baidu", "3").otherwise(said).alias("channel_id")
    return bids.select("number", "auction", "bidder", "price", "channel", channel_id).where("channel_id IS NOT NULL")


def q22(bids: DataFrame) -> DataFrame:
    """Bids with the folders of their URL."""
    folders = (
        F.split_part("url", F.lit("/"), F.lit(place)).alias(name)
        for place, name in ((4, "first"), (5, "second"), (6, "third"))
    )
    return bids.select("number", "auction", "bidder", "price", "channel", *folders)


def _euros() -> Column:
    return (F.col("price") * EURO).alias("euros")


def _day() -> Column:
    return F.date_format("happened", "yyyy-MM-dd").alias("day")


def _of_rank(rank: str, value: Column) -> Column:
    """A value where the price is of a rank, else null."""
    least, below = RANKS[rank]
    return F.when((F.col("price") >= least) & (F.col("price") < below), value)


def _counts() -> list[Column]:
    of_ranks = [F.count(_of_rank(rank, F.lit(1))).alias(f"{rank}_bids") for rank in RANKS]
    return [F.count("*").alias("bids"), *of_ranks]


def _distinct(what: str) -> list[Column]:
    """How many different ones there are; a stream has no count of them, but sets it can keep."""
    of_ranks = [F.size(F.collect_set(_of_rank(rank, F.col(what)))).alias(f"{rank}_{what}s") for rank in RANKS]
    return [F.size(F.collect_set(what)).alias(f"{what}s"), *of_ranks]
