"""The queries by name: the inputs of each, the key of its result rows, and the lanes in which it runs."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from bench.nexmark import queries

STREAMS = {
    "persons": "number bigint, id bigint, name string, email string, card string, city string, state string, "
    "happened_ms bigint, extra string",
    "auctions": "number bigint, id bigint, item string, description string, initial_bid bigint, reserve bigint, "
    "happened_ms bigint, expires_ms bigint, seller bigint, category bigint, extra string",
    "bids": "number bigint, auction bigint, bidder bigint, price bigint, channel string, url string, "
    "happened_ms bigint, extra string",
    "winning": "id bigint, category bigint, seller bigint, ends timestamp, price bigint",
}


@dataclass(frozen=True)
class Query:
    """A query: if it updates, a later row replaces the earlier one of the same key; otherwise rows are final."""

    name: str
    function: Callable[..., DataFrame]
    key: tuple[str, ...] = ()
    updates: bool = False
    real_time: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The streams it is a function of; `winning` is what q9 makes."""
        return tuple(inspect.signature(self.function).parameters)

    def of(self, streams: dict[str, DataFrame]) -> DataFrame:
        """What it makes of them."""
        return self.function(**{name: streams[name] for name in self.reads})


_ALL = (
    Query("q0", queries.q0, real_time=True),
    Query("q1", queries.q1, real_time=True),
    Query("q2", queries.q2, real_time=True),
    Query("q3", queries.q3),
    Query("q4", queries.q4, key=("category",), updates=True),
    Query("q5", queries.q5),
    Query("q6", queries.q6, key=("seller",), updates=True),
    Query("q7", queries.q7),
    Query("q8", queries.q8),
    Query("q9", queries.q9, key=("id",)),
    Query("q11", queries.q11),
    Query("q12", queries.q12, key=("bidder", "ends"), updates=True, real_time=True),
    Query("q14", queries.q14, real_time=True),
    Query("q15", queries.q15, key=("day",), updates=True),
    Query("q16", queries.q16, key=("channel", "day"), updates=True),
    Query("q17", queries.q17, key=("auction", "day"), updates=True, real_time=True),
    Query("q18", queries.q18, key=("bidder", "auction"), updates=True, real_time=True),
    Query("q19", queries.q19, key=("auction", "place"), updates=True, real_time=True),
    Query("q20", queries.q20),
    Query("q21", queries.q21, real_time=True),
    Query("q22", queries.q22, real_time=True),
)
QUERIES = {query.name: query for query in _ALL}
