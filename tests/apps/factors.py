"""The factors of the zoo's apps: their values, and the pairs of values that no app can have.

A row chooses one value of every factor, and has two views, each with values of its own: what it reads, its form and its
entity. Pairs of a view's factors count where one view has both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

OF_APPS: dict[str, tuple[str, ...]] = {
    "source": ("json", "avro", "nats", "captured", "outbox", "history"),
    "function": ("none", "derive", "enrich"),
    "window": ("none", "tumbling", "sliding", "session", "global"),
    "emit": ("none", "close", "update", "every"),
    "late": ("default", "drop", "side_output", "update"),
    "join": ("none", "join", "asof"),
    "pattern": ("none", "matches", "timeouts", "sides"),
    "model": ("none", "file", "train", "learn"),
    "labels": ("none", "short", "long"),
    "sink": ("none", "postgres", "redis", "clickhouse"),
    "second_sink": ("none", "delta", "iceberg", "kafka", "webhook"),
    "store": ("memory", "redis", "cassandra"),
    "lake": ("delta", "iceberg", "off"),
    "names": ("snake", "kebab", "near", "loud"),
}
OF_VIEWS: dict[str, tuple[str, ...]] = {
    "reads": ("one", "several", "derived", "windowed", "joined"),
    "form": ("plain", "windows", "forever", "where", "request"),
    "entity": ("text", "number", "composite", "boolean", "moment"),
}
FACTORS = OF_APPS | OF_VIEWS
VIEWS = 2

Choice = tuple[str, str]  # a factor and its value
Pair = frozenset[Choice]


@dataclass(frozen=True)
class Row:
    """An app of the zoo: its domain, its value of every factor, and what its views are."""

    domain: str
    values: tuple[Choice, ...]
    views: tuple[tuple[Choice, ...], ...]

    def __getitem__(self, factor: str) -> str:
        return dict(self.values)[factor]

    def view(self, number: int) -> dict[str, str]:
        return dict(self.views[number])

    @property
    def reads(self) -> frozenset[str]:
        """What its views read."""
        return frozenset(dict(view)["reads"] for view in self.views)


@dataclass(frozen=True)
class Exclusion:
    """Two choices that exclude each other, and why: a sentence of the product's, or what the words mean."""

    first: Choice
    second: Choice
    why: str
    is_refused: bool = False  # by the product, with that sentence; else no app could be written at all

    @property
    def pair(self) -> Pair:
        return frozenset((self.first, self.second))


def _meant(first: Choice, factor: str, values: tuple[str, ...], why: str) -> list[Exclusion]:
    return [Exclusion(first, (factor, value), why) for value in values]


EXCLUSIONS: tuple[Exclusion, ...] = (
    *_meant(("window", "none"), "emit", ("close", "update", "every"), "only windows are emitted"),
    *(Exclusion(("window", one), ("emit", "none"), "every window is emitted") for one in OF_APPS["window"][1:]),
    Exclusion(("window", "global"), ("emit", "close"), "hr.Global() never closes, so nothing would be emitted", True),
    Exclusion(("reads", "derived"), ("function", "none"), "a derived stream is made by a function"),
    Exclusion(("reads", "windowed"), ("window", "none"), "a windowed stream is made by a window"),
    Exclusion(("reads", "windowed"), ("emit", "none"), "a windowed stream is emitted"),
    Exclusion(("reads", "joined"), ("join", "none"), "a joined stream is made by a join"),
    *_meant(("model", "none"), "labels", ("short", "long"), "labels are of a model"),
    Exclusion(("model", "learn"), ("labels", "none"), "learn= needs labels= to learn from", True),
    Exclusion(("source", "captured"), ("reads", "several"), "a view of one is of its rows alone", True),
)


def pairs_of(row: Row) -> set[Pair]:
    """Every pair of values that an app has."""
    found = {frozenset(two) for two in combinations(row.values, 2)}
    for view in row.views:
        found |= {frozenset(two) for two in combinations(view, 2)}
        found |= {frozenset(two) for two in product(row.values, view)}
    return found


def possible_pairs() -> set[Pair]:
    """Every pair of values of two factors, but for those that exclude each other."""
    return set(_every_pair()) - {one.pair for one in EXCLUSIONS}


def _every_pair() -> Iterator[Pair]:
    for first, second in combinations(FACTORS, 2):
        for one, other in product(FACTORS[first], FACTORS[second]):
            yield frozenset(((first, one), (second, other)))


def is_possible(row: Row) -> bool:
    return not pairs_of(row) & {one.pair for one in EXCLUSIONS}
