"""Derived streams on Spark: clean events as DataFrames, the user's function, and its rows as records of a raw topic.

    payments.clean ──▶ typed columns, known_at ──watermark──(dedup by id)──▶ function ──▶ JSON, by key ──▶ abroad

Parents are read with ANSI mode off, as everywhere here; the function runs with ANSI mode on, as in any Spark 4: what
cannot be computed raises, and a row that raises is put aside.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.app import App
from headrace.declare.derivation import KNOWN_AT, Derivation, Derived, FunctionOf, Operation
from headrace.declare.enriched import Enrichment
from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.errors import DeclarationError
from headrace.log.records import Partition
from headrace.stream.enriched import function_of
from headrace.stream.events import AS_WRITTEN, event_of, parsed
from headrace.stream.examined import SOURCE, WHY_REAL_TIME, Examined, examine, require_streamable
from headrace.stream.lanes import Lane
from headrace.stream.watermark import watermark_delay_us

ANSI = "spark.sql.ansi.enabled"
RECORDS = (
    "cast(null as binary) key",
    "cast(null as binary) value",
    "0 partition",
    "0L offset",
    "cast(null as array<struct<key string, value binary>>) headers",
)

Places = dict[Partition, frozenset[int]]


@dataclass(frozen=True)
class Function:
    """A function that makes a derived stream, and where its rows go."""

    made_by: FunctionOf
    stream: Derived
    feeds: str | None = None  # the operation, if any, that waits for what it writes

    @property
    def parents(self) -> tuple[Stream, ...]:
        return self.made_by.inputs

    def refused(self, sentence: str) -> DeclarationError:
        return DeclarationError(f"{self.made_by.written}: {self.stream.name}: {sentence}")


def functions_of(app: App) -> dict[Derivation, Function]:
    """How an app's streams are derived that functions make."""
    found = [(one.made_by, _function(one.made_by), one) for one in app.streams if isinstance(one, Derived)]
    return {
        made_by: Function(function, one, _fed(app, one)) for made_by, function, one in found if function is not None
    }


def _function(made_by: Derivation) -> FunctionOf | None:
    if isinstance(made_by, Enrichment):
        return function_of(made_by)
    return made_by if isinstance(made_by, FunctionOf) else None


def _fed(app: App, stream: Stream) -> str | None:
    """The first operation that reads a stream, or what functions make of it."""
    for reader in (one for one in app.derivations if stream in one.inputs):
        made = (_fed(app, one) for one in app.made_by(reader))
        fed = reader.name if isinstance(reader, Operation) else next(filter(None, made), None)
        if fed is not None:
            return fed
    return None


@dataclass(frozen=True)
class Judged:
    """The lane a function runs in, why there, and whether it keeps state."""

    lane: Lane
    why: str
    keeps_state: bool


def judge(spark: SparkSession, function: Function) -> Judged:
    """Call a function on streams without events, look at what it made of them, and choose its lane."""
    blanks = [_blank(spark, parent) for parent in function.parents]
    examined = examine(checked(function, blanks))
    _require_fit(function, examined)
    asked = function.made_by.lane
    if asked == "real-time" and examined.why:
        raise function.refused(
            f'lane="real-time", and the function has {examined.why}, which real-time mode does not run. '
            'Remove that, or lane="real-time".'
        )
    if examined.why:
        return Judged(Lane.MICRO_BATCH, examined.why, examined.keeps_state)
    if asked == "micro-batch":
        return Judged(Lane.MICRO_BATCH, 'asked for: lane="micro-batch"', keeps_state=False)
    if asked == "auto" and function.feeds is not None:
        return Judged(Lane.MICRO_BATCH, f"the clock of {function.feeds} follows its commits", keeps_state=False)
    return Judged(Lane.REAL_TIME, WHY_REAL_TIME, keeps_state=False)


def checked(function: Function, clean: Sequence[DataFrame]) -> DataFrame:
    """The rows a function makes of clean streams, once Spark can run it and they have the declared columns."""
    result = called(function, frames(function, clean, Lane.REAL_TIME))
    try:
        require_streamable(result)
    except PySparkException as problem:
        raise function.refused(f"Spark cannot run it on a stream: {_first_line(problem)}") from problem
    return result


def derived(function: Function, judged: Judged, clean: Sequence[DataFrame], lane: Lane, out: Places) -> DataFrame:
    """Kafka records of the parents' clean topics → Kafka records of the derived stream's raw topic.

    Where the function keeps state, each id is given to it once; what is at the places to leave out is not given at all.
    """
    kept = [_without(frame, parent, out) for frame, parent in zip(clean, function.parents, strict=True)]
    return records(called(function, frames(function, kept, lane, once=judged.keeps_state)), function.stream)


def frames(function: Function, clean: Sequence[DataFrame], lane: Lane, *, once: bool = False) -> list[DataFrame]:
    """What a function is given: the events of each parent, with a watermark and, if asked for, each id once."""
    for frame in clean:
        frame.sparkSession.conf.set(ANSI, "false")
    return [_frame(frame, parent, lane, once) for frame, parent in zip(clean, function.parents, strict=True)]


def _frame(clean: DataFrame, parent: Stream, lane: Lane, once: bool) -> DataFrame:
    delay_us = watermark_delay_us(parent, lane is Lane.DRAINING)
    marked = events(clean, parent).withWatermark(parent.time, f"{delay_us // 1000} milliseconds")
    return marked.dropDuplicatesWithinWatermark([parent.id]) if once else marked


def events(clean: DataFrame, stream: Stream) -> DataFrame:
    """Kafka records of a clean topic → typed columns, and `known_at`: when the event had arrived."""
    arrival_us = F.col("headers")[1]["value"].cast("string").cast("bigint")
    read = clean.select(
        event_of(parsed(F.col("value"), stream), stream).alias("event"), F.timestamp_micros(arrival_us).alias(KNOWN_AT)
    )
    columns = [F.col("event").getField(name).alias(name) for name in stream.schema.names if name != KNOWN_AT]
    return read.select(*columns, KNOWN_AT)


def called(function: Function, given: Sequence[DataFrame]) -> DataFrame:
    """The result of a function, once it is a DataFrame with the declared columns and no others."""
    given[0].sparkSession.conf.set(ANSI, "true")
    try:
        result = function.made_by.function(*given)
    except PySparkException as problem:
        raise function.refused(f"the function fails: {_first_line(problem)}") from problem
    except Exception as problem:
        raise function.refused(f"the function fails: {type(problem).__name__}: {problem}") from problem
    if not isinstance(result, DataFrame):
        raise function.refused(f"the function gives {type(result).__name__}, not a DataFrame. Return one.")
    _require_columns(function, result)
    return result


def _require_columns(function: Function, result: DataFrame) -> None:
    declared = {column.name: column.type for column in function.stream.schema}
    found = dict(result.dtypes)
    for name, type_ in declared.items():
        if name not in found:
            only = ", ".join(found)
            raise function.refused(f"the result has no column {name!r}, only {only}. {_remedy(name, type_)}")
        if found[name] != type_:
            raise function.refused(
                f"column {name!r} is declared as {type_} and the result's is {found[name]}. "
                f'Cast it: F.col("{name}").cast("{type_}"), or change schema=.'
            )
    more = [name for name in result.columns if name not in declared or result.columns.count(name) > 1]
    if more:
        raise function.refused(
            f"the result has a column {more[0]!r} that is not declared, or twice. "
            f"Add it to schema=, or drop it: declared are {', '.join(declared)}."
        )


def _remedy(name: str, type_: str) -> str:
    if name == KNOWN_AT:
        return 'Keep it, or in a groupBy compute it: F.max("known_at").alias("known_at").'
    return f"Select it as {type_}, or change schema=."


def _require_fit(function: Function, examined: Examined) -> None:
    if examined.unfit:
        raise function.refused(
            f"{examined.unfit[0]} runs on what happens to be in one batch. "
            "Use an aggregate, transformWithState, or one of Headrace's operators."
        )
    unread = [parent.name for parent in function.parents if parent.name not in examined.sources]
    if unread:
        raise function.refused(f"the function does not read {unread[0]}. Remove it from @hr.derive(…), or use it.")


def records(result: DataFrame, stream: Derived) -> DataFrame:
    """Rows of a derived stream → Kafka records of its raw topic, in the partition of their key."""
    event = F.struct(*(F.col(f"`{name}`") for name in stream.schema.names))
    return result.select(
        F.lit(stream.name).alias("topic"),
        _key(stream).alias("key"),
        F.to_json(event, {"timestampFormat": AS_WRITTEN}).alias("value"),
    )


def _key(stream: Derived) -> Column:
    key = F.col(f"`{stream.key}`")
    is_time = stream.schema.column(stream.key, stream.name).kind is Kind.TIMESTAMP
    return F.date_format(key, AS_WRITTEN) if is_time else key.cast("string")


def _without(clean: DataFrame, parent: Stream, out: Places) -> DataFrame:
    """The records of a topic but for those at some places."""
    for place, offsets in sorted(out.items()):
        if place.topic == parent.clean and offsets:
            clean = clean.where(~((F.col("partition") == place.number) & F.col("offset").isin(sorted(offsets))))
    return clean


def _blank(spark: SparkSession, parent: Stream) -> DataFrame:
    """A stream as the log would have it, with nothing in it: a plan of it needs no broker."""
    return spark.readStream.format("rate").option(SOURCE, parent.name).load().selectExpr(*RECORDS)


def _first_line(problem: PySparkException) -> str:
    return str(problem).strip().partition("\n")[0]
