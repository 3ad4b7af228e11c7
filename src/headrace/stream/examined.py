"""What a function of streaming DataFrames has in it, read from Spark's own plan: the lane it can run in, and why.

payments.where(…)                          projections and filters         real-time
payments.join(F.broadcast(table), "card")  a broadcast join with a table   real-time
payments.groupBy(F.window(…)).agg(…)       an aggregate: it keeps state    micro-batch
payments.where(…).union(payments.where(…)) a stream read more than once    micro-batch
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

PLAIN = {
    "Project",
    "Filter",
    "Generate",
    "Union",
    "SubqueryAlias",
    "View",
    "EventTimeWatermark",
    "StreamingRelationV2",
    "ResolvedHint",
}
STATELESS = {
    "MapInPandas": "a mapInPandas",
    "MapInArrow": "a mapInArrow",
    "Repartition": "a repartition",
    "RepartitionByExpression": "a repartition",
}
STATEFUL = {
    "Aggregate": "an aggregate",
    "Deduplicate": "a dropDuplicates",
    "DeduplicateWithinWatermark": "a dropDuplicatesWithinWatermark",
    "Distinct": "a distinct",
    "FlatMapGroupsInPandasWithState": "state kept in Python",
    "TransformWithStateInPySpark": "state kept in Python",
    "GlobalLimit": "a limit",
    "LocalLimit": "a limit",
}
BY_THE_BATCH = {
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapCoGroupsInPandas": "a cogroup",
    "FlatMapCoGroupsInArrow": "a cogroup",
}
SOURCE = "stream"  # the option of a source that names the stream it stands for
SUBQUERIES = {"InSubquery", "ScalarSubquery", "Exists", "ListQuery"}
WHY_REAL_TIME = "projections, filters, explode, unions and broadcast joins alone, Kafka to Kafka"


@dataclass(frozen=True)
class Part:
    """Something in a plan that real-time mode does not run, in words, and whether it keeps state."""

    words: str
    keeps_state: bool = False


@dataclass(frozen=True)
class Examined:
    """What of a plan matters here: `sources` are read, `unfit` is what would be done with each batch for itself."""

    parts: tuple[Part, ...]
    sources: frozenset[str]
    unfit: tuple[str, ...] = ()

    @property
    def keeps_state(self) -> bool:
        return any(part.keeps_state for part in self.parts)

    @property
    def why(self) -> str:
        """What keeps it out of real-time mode; empty where nothing does."""
        return " and ".join(dict.fromkeys(part.words for part in self.parts))


def examine(result: DataFrame) -> Examined:
    """What the analysed plan of a streaming DataFrame has in it."""
    nodes = list(_streaming(result._jdf.queryExecution().analyzed()))  # noqa: SLF001
    sources = [str(node.extraOptions().get(SOURCE)) for node in nodes if _name(node) == "StreamingRelationV2"]
    return Examined(
        tuple(part for node in nodes for part in _parts(node)) or tuple(_repeated(sources)),
        frozenset(sources),
        tuple(BY_THE_BATCH[_name(node)] for node in nodes if _name(node) in BY_THE_BATCH),
    )


def require_streamable(result: DataFrame) -> None:
    """Let Spark refuse what it cannot run on a stream, in its own words, before any query starts."""
    jvm: Any = result.sparkSession._jvm  # noqa: SLF001
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    checker.checkForStreaming(result._jdf.queryExecution().analyzed(), append)  # noqa: SLF001


def _streaming(node: Any) -> Iterator[Any]:
    """The nodes of a plan that events pass through, from the result on."""
    if node.isStreaming():
        yield node
        for child in _seq(node.children()):
            yield from _streaming(child)


def _parts(node: Any) -> Iterator[Part]:
    name = _name(node)
    if name == "Join":
        yield from _join(node)
    elif name in STATEFUL:
        yield Part(_session(node) or STATEFUL[name], keeps_state=True)
    elif name in STATELESS:
        yield Part(STATELESS[name])
    elif name not in PLAIN and name not in BY_THE_BATCH:
        yield Part(f"Spark's {name}", keeps_state=True)
    kinds = {_name(one) for expression in _seq(node.expressions()) for one in _tree(expression)}
    if name in PLAIN and any(kind.startswith("Python") for kind in kinds):
        yield Part("a Python UDF")
    if kinds & SUBQUERIES:
        yield Part("a subquery")


def _repeated(sources: Sequence[str]) -> Iterator[Part]:
    """Real-time mode has one place in each source, so it refuses a union that reads one twice."""
    return (Part(f"{name} read more than once") for name in dict.fromkeys(sources) if sources.count(name) > 1)


def _join(node: Any) -> Iterator[Part]:
    sides = list(_seq(node.children()))
    tables = [side for side in sides if not side.isStreaming()]
    if not tables:
        yield Part("a stream-stream join", keeps_state=True)
    elif not any("broadcast" in str(side.toString()) for side in tables):
        yield Part("a join with a table that is not broadcast")


def _session(node: Any) -> str | None:
    grouped = [str(one) for one in _seq(node.expressions())]
    return "a session window" if any(one.startswith("session_window") for one in grouped) else None


def _tree(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _seq(expression.children()):
        yield from _tree(child)


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _seq(found: Any) -> Iterator[Any]:
    return (found.apply(place) for place in range(found.size()))
