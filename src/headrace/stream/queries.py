"""The queries of an app: a gate for each stream, a tiles query for each generation of its views, and derivations."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from headrace.declare.app import App
from headrace.declare.derivation import Derivation, Operation
from headrace.declare.names import query_name
from headrace.declare.stream import Stream
from headrace.log.offsets import Offsets
from headrace.log.progress import ensure_progress_topic
from headrace.log.topics import Topics, ensure_topics
from headrace.stream.checkpoints import is_begun
from headrace.stream.decoded import lane_of
from headrace.stream.derived import Function, Judged, derived
from headrace.stream.followed import require_followable
from headrace.stream.gate import gate
from headrace.stream.generations import Generation, Generations, plan_generations
from headrace.stream.kept_state import plan_on_state
from headrace.stream.lanes import Lane, QuerySpec
from headrace.stream.learning import Learning
from headrace.stream.operations import KeptRun, plan_run
from headrace.stream.raised import Aside
from headrace.stream.tiles import SHUFFLES, Fold, TilePlan, tiles
from headrace.stream.watermark import watermark_delay_us

LOGGER = logging.getLogger("headrace.stream")


@dataclass(frozen=True)
class Place:
    """What the queries work with: the log, the state folder, the streams to rebuild, and how they run."""

    broker: str
    state: Path
    rebuild: frozenset[str] = frozenset()
    lane: Lane = Lane.REAL_TIME
    checkpoint_seconds: int = 300
    since_us: int | None = None  # where operations that are rebuilt begin; None: with the earliest record


@dataclass(frozen=True)
class Shares:
    """The partitions that a query reads, which may grow, and those of its state, which stay as they began."""

    read: int
    kept: int


@dataclass(frozen=True)
class Planned:
    """The queries of an app, before they start: those of streams; what derives streams is judged by Spark first."""

    specs: tuple[QuerySpec, ...]
    generations: tuple[Generations, ...]
    partitions: Mapping[str, int]
    derivations: tuple[Derivation, ...] = ()
    runs: tuple[KeptRun, ...] = ()
    changelogs: Mapping[str, int] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """The task slots all queries hold at once that a process of streams has."""
        functions = [made_by for made_by in self.derivations if not isinstance(made_by, Operation)]
        return sum(spec.slots for spec in self.specs) + self._reading(functions)

    @property
    def operating_slots(self) -> int:
        """The task slots all operations may use at once."""
        return self._reading([run.operation for run in self.runs])

    def _reading(self, derivations: Sequence[Derivation]) -> int:
        return sum(self.partitions[one.name] for made_by in derivations for one in made_by.inputs)


def plan_queries(app: App, place: Place) -> Planned:
    """Create the topics and decide which queries run; refuses what the kept state cannot follow."""
    found = ensure_topics(place.broker, app.streams, app.views, app.models)
    ensure_progress_topic(place.broker)
    for warning in found.warnings:
        LOGGER.warning(warning)
    planned = plan_on_state(app, place.state, place.rebuild, found.partitions, place.since_us)
    for plan in planned.generations:
        _require_cuts(plan, place)
    specs = tuple(spec for plan in planned.generations for spec in _specs(plan, place, found))
    return Planned(specs, planned.generations, found.partitions, app.derivations, planned.runs, found.changelogs)


def checkpoints_of(app: App, state: Path) -> list[str]:
    """The checkpoints of all queries of an app, begun or not, as STREAM/QUERY in the folder of checkpoints."""
    plans = [plan_generations(stream, app.views_of(stream), state, stream.partitions) for stream in app.streams]
    gates = [f"{stream.name}/gate" for stream in app.streams]
    tiles = [f"{plan.stream.name}/tiles-{one.number}" for plan in plans for one in plan.running]
    derived = [_checkpoint_of(made_by, state) for made_by in app.derivations]
    return [*gates, *tiles, *derived]


def _checkpoint_of(made_by: Derivation, state: Path) -> str:
    if isinstance(made_by, Operation):
        return f"{made_by.name}/{plan_run(made_by, state).checkpoint(state).name}"
    return f"{made_by.name}/derive"


def _require_cuts(plan: Generations, place: Place) -> None:
    """Refuse to begin a query after the cut: records between it and the log's beginning would be counted by nobody."""
    for generation in plan.running:
        if generation.cut is not None and not is_begun(_checkpoint(plan.stream, generation, place)):
            begins = Offsets(place.broker).begins(plan.stream.clean)
            generation.cut.require_in(generation.views[0].name, plan.stream.clean, begins)


def _checkpoint(stream: Stream, generation: Generation, place: Place) -> Path:
    return place.state.resolve() / "checkpoints" / stream.name / f"tiles-{generation.number}"


def _specs(plan: Generations, place: Place, found: Topics) -> Iterable[QuerySpec]:
    read = found.partitions[plan.stream.name]
    yield gate_spec(plan.stream, place, read)
    for generation in plan.running:
        yield tiles_spec(plan.stream, generation, place, Shares(read, plan.partitions), found.changelogs)


def gate_spec(stream: Stream, place: Place, partitions: int) -> QuerySpec:
    """The query that judges a stream's raw records."""
    checkpoint = place.state.resolve() / "checkpoints" / stream.name / "gate"
    learning = None if stream.encoded is None else Learning(stream, place.broker, checkpoint)
    return QuerySpec(
        name=query_name(stream.name, "gate"),
        stream=stream.name,
        views=(),
        broker=place.broker,
        sources=(stream.name,),
        source_partitions=partitions,
        shuffle_partitions=partitions,
        shuffles=0,
        linger_ms=0,
        checkpoint_seconds=place.checkpoint_seconds,
        checkpoint=checkpoint,
        build=lambda raw, _lane: gate(raw[0], stream, None if learning is None else learning.known),
        lane=lane_of(stream),
        mend=None if learning is None else learning.mend,
        held=None if learning is None else learning.held,
    )


def tiles_spec(
    stream: Stream, generation: Generation, place: Place, shares: Shares, changelogs: Mapping[str, int]
) -> QuerySpec:
    """The query that keeps the tiles of a generation's views, whose changelogs have so many partitions."""
    plan = TilePlan(stream, generation.views)

    def build(clean: Sequence[DataFrame], lane: Lane) -> DataFrame:
        fold = Fold(plan, changelogs, watermark_delay_us(stream, lane is Lane.DRAINING))
        return tiles(clean[0], fold, generation.cut)

    return QuerySpec(
        name=generation.query(stream),
        stream=stream.name,
        views=tuple(view.name for view in generation.views),
        broker=place.broker,
        sources=(stream.clean,),
        source_partitions=shares.read,
        shuffle_partitions=shares.kept,
        shuffles=SHUFFLES,
        # One event is a tile of every view and hop: a millisecond brings them to the broker in one request.
        linger_ms=1,
        checkpoint_seconds=place.checkpoint_seconds,
        checkpoint=_checkpoint(stream, generation, place),
        build=build,
        # Every id of the history is known before the first that might repeat it, whichever partitions they are in.
        first_ends=None if generation.cut is None else generation.cut.clean,
    )


def derive_spec(function: Function, judged: Judged, place: Place, partitions: Mapping[str, int]) -> QuerySpec:
    """The query that derives a stream by a function, whose parents have so many partitions."""
    name, parents = function.made_by.name, function.parents
    checkpoint = place.state.resolve() / "checkpoints" / name / "derive"
    require_followable(function, judged, checkpoint)
    aside = Aside(function, place.broker, checkpoint)
    most = max(partitions[parent.name] for parent in parents)
    return QuerySpec(
        name=function.made_by.query,
        stream=function.stream.name,
        views=(),
        derives=(function.stream.name,),
        broker=place.broker,
        sources=tuple(parent.clean for parent in parents),
        source_partitions=sum(partitions[parent.name] for parent in parents),
        shuffle_partitions=most,
        shuffles=0,
        linger_ms=0,
        checkpoint_seconds=place.checkpoint_seconds,
        checkpoint=checkpoint,
        build=lambda clean, lane: derived(function, judged, clean, lane, aside.places()),
        lane=judged.lane,
        keeps_rows_back=judged.keeps_state,
        mend=aside.mend,
        held=function.made_by.held,
    )
