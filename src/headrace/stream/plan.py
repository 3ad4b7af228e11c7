"""What would run: topics, queries and their lanes, tiles and state, and what has changed since the last run."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.declare.changes import Changes
from headrace.declare.derivation import Derivation, Derived, Operation
from headrace.declare.durations import duration_text
from headrace.declare.recounted import recount_of
from headrace.declare.shown import shown
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.errors import DeclarationError
from headrace.log.topics import fates_of
from headrace.stream.decoded import lane_of
from headrace.stream.derived import Function, Judged, functions_of, judge
from headrace.stream.followed import refusal_of
from headrace.stream.generations import Generation, Generations, plan_generations
from headrace.stream.lanes import Lane
from headrace.stream.operations import KeptRun, plan_run
from headrace.stream.watermark import watermark_delay_us
from headrace.tiles.layout import HopLayout, layouts_of, sketch_bytes

UNCHANGED = ("nothing has changed",)
LANE_OF_GATE = "stateless, Kafka to Kafka"
LANE_OF_PYTHON = "its Protobuf is decoded in Python, which real-time mode does not run"
LANE_OF_OPERATORS = "an operator keeps what it knows of each key in Python"
LANE_OF_TILES = "deduplication and tiles are native Spark aggregates, Kafka to Kafka"


@dataclass(frozen=True)
class PlannedQuery:
    """One query: what it reads and writes, in which lane, and why there."""

    name: str
    reads: str
    writes: tuple[str, ...]
    lane: str
    why: str
    task_slots: int
    remembers: str


@dataclass(frozen=True)
class PlannedTiles:
    """The tiles of one view and one hop, for one key; None online: one for each hop with events, and none ever goes.

    A view of several streams has such tiles of each; `beside` names the others. With salt there are up to so many parts
    of each.
    """

    view: str
    hop: str
    tiles_online: int | None
    bytes_a_tile: int
    tiles_in_state: int
    features: tuple[str, ...]
    beside: tuple[str, ...] = ()
    salt: int = 1


@dataclass(frozen=True)
class PlannedStream:
    """Everything that would run for one stream."""

    stream: str
    topics: tuple[str, ...]
    queries: tuple[PlannedQuery, ...]
    tiles: tuple[PlannedTiles, ...]
    changes: tuple[str, ...]
    refused: tuple[str, ...]
    schemas: tuple[str, ...] = ()  # of a stream that has a registry: where they come from, and what they mean for it
    comes_from: str | None = None  # another log, without a word of its address

    def _repr_html_(self) -> str:
        line = "; ".join((*self.changes, *(f"REFUSED: {why}" for why in self.refused)))
        rows = [(one.name, one.reads, ", ".join(one.writes), one.lane, one.why) for one in self.queries]
        return shown(self.stream, line, ("query", "reads", "writes", "lane", "why"), rows)


Verdict = Judged | DeclarationError  # of a function: how it runs, or why it does not


def judged_functions(app: App, spark: SparkSession) -> dict[Derivation, Verdict]:
    """What Spark says of each function that derives a stream."""
    return {made_by: _verdict(spark, function) for made_by, function in functions_of(app).items()}


def _verdict(spark: SparkSession, function: Function) -> Verdict:
    try:
        return judge(spark.newSession(), function)
    except DeclarationError as refused:
        return refused


def plan_app(app: App, state: Path, judged: Mapping[Derivation, Verdict] | None = None) -> tuple[PlannedStream, ...]:
    """The plan of every stream of an app, given what Spark says of its functions; nothing is started or written."""
    verdicts = _followed(app, state, judged or {})
    return tuple(_plan(stream, _views(app, stream), state, verdicts) for stream in app.streams)


def _followed(app: App, state: Path, judged: Mapping[Derivation, Verdict]) -> dict[Derivation, Verdict]:
    """What is said of functions, and of those that have begun, whether their checkpoint can follow."""
    functions, verdicts = functions_of(app), dict(judged)
    for made_by, verdict in judged.items():
        if isinstance(verdict, Judged):
            checkpoint = state.resolve() / "checkpoints" / made_by.name / "derive"
            verdicts[made_by] = refusal_of(functions[made_by], verdict, checkpoint) or verdict
    return verdicts


class Views(NamedTuple):
    """The views of a stream: those of its events, and those of the rows of a captured table."""

    of_events: tuple[View, ...]
    of_rows: tuple[View, ...]


def _views(app: App, stream: Stream) -> Views:
    return Views(app.views_of(stream), tuple(view for view in app.views if view.captured == stream))


def _plan(stream: Stream, views: Views, state: Path, judged: Mapping[Derivation, Verdict]) -> PlannedStream:
    generations = plan_generations(stream, views.of_events, state, stream.partitions)
    every = (*views.of_events, *views.of_rows)
    runs = [*_runs_of(stream, state), *(plan_run(recount_of(view), state) for view in views.of_rows)]
    planned: list[KeptRun | Generations] = [*runs, generations]
    deriving = (_derive(stream, judged.get(stream.made_by)),) if isinstance(stream, Derived) else ()
    return PlannedStream(
        stream=stream.name,
        topics=(stream.name, *fates_of(stream), *(view.topic for view in every)),
        queries=(
            *deriving,
            *_capture(stream),
            _gate(stream, generations.partitions),
            *_tiles(stream, generations),
            *(_recount(stream, view) for view in views.of_rows),
        ),
        tiles=tuple(_sized(stream, view, layout) for view in every for layout in layouts_of(view)),
        changes=tuple(dict.fromkeys(change for one in planned for change in one.changes)) or UNCHANGED,
        refused=(
            *(f"{reason} {one.advice}" for one in planned for reason in one.refused),
            *_refused(stream, judged),
        ),
        schemas=_schemas(stream),
        comes_from=None if stream.from_ is None else stream.from_.named,
    )


def _schemas(stream: Stream) -> tuple[str, ...]:
    encoded = stream.encoded
    if encoded is None:
        return ()
    told = f", whose version {stream.subject.version} has its columns" if stream.subject is not None else ""
    return (f"{encoded.format}, by the versions of {encoded.subject}{told}",)


def _runs_of(stream: Stream, state: Path) -> list[KeptRun]:
    """The run of the operation that writes a stream, if one does."""
    made_by = stream.made_by if isinstance(stream, Derived) else None
    return [plan_run(made_by, state)] if isinstance(made_by, Operation) else []


def _refused(stream: Stream, judged: Mapping[Derivation, Verdict]) -> tuple[str, ...]:
    verdict = judged.get(stream.made_by) if isinstance(stream, Derived) else None
    return (str(verdict),) if isinstance(verdict, DeclarationError) else ()


def _derive(stream: Derived, verdict: Verdict | None) -> PlannedQuery:
    """How a stream is derived: by a function, which Spark has judged, or by an operator."""
    inputs = stream.made_by.inputs
    lane, why, remembers = _runs(stream.made_by, verdict)
    return PlannedQuery(
        name=stream.made_by.query,
        reads=", ".join(one.clean for one in inputs),
        writes=(stream.name,),
        lane=lane,
        why=why,
        task_slots=sum(one.partitions for one in inputs),
        remembers=remembers,
    )


def _runs(made_by: Derivation, verdict: Verdict | None) -> tuple[str, str, str]:
    """The lane of a derivation, why there, and what it remembers."""
    if isinstance(verdict, DeclarationError):
        return "no", "refused", "nothing"
    if verdict is None:
        return "micro-batch", LANE_OF_OPERATORS, "what its operator keeps of each key"
    ids = " and ".join(f"each id of {one.name} for {duration_text(watermark_delay_us(one))}" for one in made_by.inputs)
    return verdict.lane.value, verdict.why, f"{ids}, and what it keeps" if verdict.keeps_state else "nothing"


def _gate(stream: Stream, partitions: int) -> PlannedQuery:
    lane = lane_of(stream)
    why = LANE_OF_GATE if lane is Lane.REAL_TIME else LANE_OF_PYTHON
    return PlannedQuery(
        f"{stream.name}.gate", stream.name, tuple(fates_of(stream)), lane.value, why, partitions, "nothing"
    )


def _tiles(stream: Stream, generations: Generations) -> list[PlannedQuery]:
    kept = duration_text(watermark_delay_us(stream))
    return [
        PlannedQuery(
            name=generation.query(stream),
            reads=stream.clean + _from_the_cut(stream, generation),
            writes=tuple(view.topic for view in generation.views),
            lane="real-time",
            why=LANE_OF_TILES,
            task_slots=3 * generations.partitions,
            remembers=f"each id for {kept}, each tile for its hop and {kept}",
        )
        for generation in generations.running
    ]


def _capture(stream: Stream) -> Iterator[PlannedQuery]:
    """How a table is captured, where we do."""
    if isinstance(stream, Changes) and stream.source is not None:
        yield PlannedQuery(
            name=f"{stream.name}.capture",
            reads=f"the table {stream.source.table}",
            writes=(stream.name,),
            lane="no",
            why="Debezium in Connect reads the database's log",
            task_slots=0,
            remembers="its place, in topics of Connect's and in a slot of the database",
        )


def _recount(stream: Stream, view: View) -> PlannedQuery:
    """What keeps a view of a captured table's rows."""
    return PlannedQuery(
        name=recount_of(view).query,
        reads=stream.clean,
        writes=(view.topic,),
        lane="micro-batch",
        why=LANE_OF_OPERATORS,
        task_slots=2 * stream.partitions,
        remembers="the rows of each entity that the table has now",
    )


def _from_the_cut(stream: Stream, generation: Generation) -> str:
    return f" after its history, from {generation.cut.described(stream.name)} on" if generation.cut else ""


def _sized(stream: Stream, view: View, layout: HopLayout) -> PlannedTiles:
    in_state_us = layout.hop_us + watermark_delay_us(stream)
    return PlannedTiles(
        view=view.name,
        hop=duration_text(layout.hop_us),
        tiles_online=None if layout.is_kept_forever else -(-layout.keep_us // layout.hop_us),
        bytes_a_tile=layout.row.size + sum(map(sketch_bytes, layout.slots)),
        tiles_in_state=-(-in_state_us // layout.hop_us),
        features=tuple(feature.name for feature in view.features if feature.window.hop_us == layout.hop_us),
        beside=tuple(other.name for other in view.streams if other != stream),
        salt=view.salt,
    )


def as_json(plan: tuple[PlannedStream, ...]) -> list[dict[str, Any]]:
    """The plan in plain values."""
    return [asdict(stream) for stream in plan]


def as_text(plan: tuple[PlannedStream, ...]) -> str:
    """The plan for a person."""
    return "\n\n".join("\n".join(_lines(stream)) for stream in plan)


def _online(sized: PlannedTiles) -> str:
    if sized.tiles_online is None:
        return f"one tile a key online for every {sized.hop} with events, for ever"
    return f"at most {sized.tiles_online} tiles a key online"


def _beside(sized: PlannedTiles) -> str:
    return f", merged with those from {' and '.join(sized.beside)}" if sized.beside else ""


def _cut(sized: PlannedTiles) -> str:
    return f", each in up to {sized.salt} parts" if sized.salt > 1 else ""


def _lines(stream: PlannedStream) -> list[str]:
    queries = [
        line
        for query in stream.queries
        for line in (
            f"  {query.name}: {query.reads} → {', '.join(query.writes)}",
            f"      {query.lane} lane ({query.why}); {query.task_slots} task slots; remembers {query.remembers}",
        )
    ]
    tiles = [
        f"  {sized.view} every {sized.hop}{_beside(sized)}: {_online(sized)}, "
        f"{sized.tiles_in_state} in state, {sized.bytes_a_tile} bytes each{_cut(sized)} → {', '.join(sized.features)}"
        for sized in stream.tiles
    ]
    return [
        f"{stream.stream}",
        f" topics: {', '.join(stream.topics)}",
        *([f" comes from: {stream.comes_from}, by a bridge"] if stream.comes_from else []),
        " queries:",
        *queries,
        *([" tiles:", *tiles] if tiles else []),
        *([" schemas:", *(f"  {said}" for said in stream.schemas)] if stream.schemas else []),
        " since the last run:",
        *(f"  {change}" for change in stream.changes),
        *(f"  REFUSED: {reason}" for reason in stream.refused),
    ]
