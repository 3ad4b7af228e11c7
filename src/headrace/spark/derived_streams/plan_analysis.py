"""Analyzes Spark's plan of a function of streaming DataFrames: the lane it can run in, and why.

payments.where(…)                          projections and filters         real-time
payments.join(F.broadcast(table), "card")  a broadcast join with a table   real-time
payments.groupBy(F.window(…)).agg(…)       an aggregate: it keeps state    micro-batch
payments.where(…).union(payments.where(…)) a stream read more than once    micro-batch
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

REAL_TIME_NODES = {
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
STATELESS_NODES = {
    "MapInPandas": "a mapInPandas",
    "MapInArrow": "a mapInArrow",
    "Repartition": "a repartition",
    "RepartitionByExpression": "a repartition",
}
STATEFUL_NODES = {
    "Aggregate": "an aggregate",
    "Deduplicate": "a dropDuplicates",
    "DeduplicateWithinWatermark": "a dropDuplicatesWithinWatermark",
    "Distinct": "a distinct",
    "FlatMapGroupsInPandasWithState": "state kept in Python",
    "TransformWithStateInPySpark": "state kept in Python",
    "GlobalLimit": "a limit",
    "LocalLimit": "a limit",
}
PER_BATCH_NODES = {
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapCoGroupsInPandas": "a cogroup",
    "FlatMapCoGroupsInArrow": "a cogroup",
}
STREAM_OPTION = "stream"  # the option of a source with the name of its stream
SUBQUERY_EXPRESSIONS = {"InSubquery", "ScalarSubquery", "Exists", "ListQuery"}
REAL_TIME_REASON = "projections, filters, explode, unions and broadcast joins alone, Kafka to Kafka"


@dataclass(frozen=True)
class RealTimeBlocker:
    """An operation in a plan that real-time mode does not run, and whether it keeps state."""

    description: str
    keeps_state: bool = False


@dataclass(frozen=True)
class PlanAnalysis:
    """The relevant parts of a plan: its sources, and the operations that depend on single batches."""

    blockers: tuple[RealTimeBlocker, ...]
    sources: frozenset[str]
    per_batch_operations: tuple[str, ...] = ()

    @property
    def keeps_state(self) -> bool:
        return any(blocker.keeps_state for blocker in self.blockers)

    @property
    def micro_batch_reason(self) -> str:
        """What keeps it out of real-time mode; empty where nothing does."""
        return " and ".join(dict.fromkeys(blocker.description for blocker in self.blockers))


def analyze_plan(result: DataFrame) -> PlanAnalysis:
    """Analyze the plan of a streaming DataFrame."""
    nodes = list(_streaming_nodes(result._jdf.queryExecution().analyzed()))  # noqa: SLF001
    sources = [
        str(node.extraOptions().get(STREAM_OPTION)) for node in nodes if _class_name(node) == "StreamingRelationV2"
    ]
    return PlanAnalysis(
        tuple(blocker for node in nodes for blocker in _find_blockers(node)) or tuple(_repeated_sources(sources)),
        frozenset(sources),
        tuple(PER_BATCH_NODES[_class_name(node)] for node in nodes if _class_name(node) in PER_BATCH_NODES),
    )


def require_streamable(result: DataFrame) -> None:
    """Let Spark reject what it cannot run on a stream, with its own message, before any query starts."""
    jvm: Any = result.sparkSession._jvm  # noqa: SLF001
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    checker.checkForStreaming(result._jdf.queryExecution().analyzed(), append)  # noqa: SLF001


def _streaming_nodes(node: Any) -> Iterator[Any]:
    """The nodes of a plan that events pass through, from the result on."""
    if node.isStreaming():
        yield node
        for child in _iterate_seq(node.children()):
            yield from _streaming_nodes(child)


def _find_blockers(node: Any) -> Iterator[RealTimeBlocker]:
    name = _class_name(node)
    if name == "Join":
        yield from _join_blockers(node)
    elif name in STATEFUL_NODES:
        yield RealTimeBlocker(_session_window(node) or STATEFUL_NODES[name], keeps_state=True)
    elif name in STATELESS_NODES:
        yield RealTimeBlocker(STATELESS_NODES[name])
    elif name not in REAL_TIME_NODES and name not in PER_BATCH_NODES:
        yield RealTimeBlocker(f"Spark's {name}", keeps_state=True)
    expression_names = {
        _class_name(subexpression)
        for expression in _iterate_seq(node.expressions())
        for subexpression in _walk_expression(expression)
    }
    if name in REAL_TIME_NODES and any(expression_name.startswith("Python") for expression_name in expression_names):
        yield RealTimeBlocker("a Python UDF")
    if expression_names & SUBQUERY_EXPRESSIONS:
        yield RealTimeBlocker("a subquery")


def _repeated_sources(sources: Sequence[str]) -> Iterator[RealTimeBlocker]:
    """Real-time mode keeps one position for each source, so it rejects a union that reads one twice."""
    return (
        RealTimeBlocker(f"{name} read more than once") for name in dict.fromkeys(sources) if sources.count(name) > 1
    )


def _join_blockers(node: Any) -> Iterator[RealTimeBlocker]:
    sides = list(_iterate_seq(node.children()))
    tables = [side for side in sides if not side.isStreaming()]
    if not tables:
        yield RealTimeBlocker("a stream-stream join", keeps_state=True)
    elif not any("broadcast" in str(side.toString()) for side in tables):
        yield RealTimeBlocker("a join with a table that is not broadcast")


def _session_window(node: Any) -> str | None:
    expressions = [str(expression) for expression in _iterate_seq(node.expressions())]
    return "a session window" if any(one.startswith("session_window") for one in expressions) else None


def _walk_expression(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _iterate_seq(expression.children()):
        yield from _walk_expression(child)


def _class_name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _iterate_seq(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))
