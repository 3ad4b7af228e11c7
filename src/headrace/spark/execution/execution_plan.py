"""The execution plan: topics, queries and their lanes, tiles and state, and the changes since the last run."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.declare.durations import duration_text
from headrace.declare.features.retractable_views import retractable_view_operation
from headrace.declare.features.view import View
from headrace.declare.notebook_repr import render_html
from headrace.declare.operations.derived_stream import Derivation, DerivedStream, StreamOperation
from headrace.declare.streams.change_capture import Changes
from headrace.declare.streams.stream import Stream
from headrace.errors import DeclarationError
from headrace.kafka.topics import fate_topics
from headrace.spark.derived_streams.checkpoint_compatibility import find_incompatibility
from headrace.spark.derived_streams.derived_query import LaneDecision, StreamFunction, choose_lane, stream_functions
from headrace.spark.execution.lanes import Lane
from headrace.spark.execution.watermark_delay import watermark_delay_us
from headrace.spark.gate.registry_decoder import fastest_gate_lane
from headrace.spark.stateful.operation_versions import OperationVersion, plan_operation_version
from headrace.spark.tiles.query_versions import QueryVersion, QueryVersionPlan, plan_query_versions
from headrace.tiles.layout import HopLayout, hop_layouts

NO_CHANGES = ("nothing has changed",)
GATE_LANE_REASON = "stateless, Kafka to Kafka"
PYTHON_LANE_REASON = "its Protobuf is decoded in Python, which real-time mode does not run"
OPERATOR_LANE_REASON = "an operator keeps what it knows of each key in Python"
TILES_LANE_REASON = "deduplication and tiles are native Spark aggregates, Kafka to Kafka"


@dataclass(frozen=True)
class PlannedQuery:
    """One query: what it reads and writes, its lane, and the reason."""

    name: str
    reads: str
    writes: tuple[str, ...]
    lane: str
    why: str
    task_slots: int
    remembers: str


@dataclass(frozen=True)
class PlannedTiles:
    """The tiles of one view and one hop, for one key; without a limit online, one for each hop with events, for ever.

    A view of several streams has such tiles of each; `beside` names the others. With salt there are up to that many
    parts of each.
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
    """The plan of one stream."""

    stream: str
    topics: tuple[str, ...]
    queries: tuple[PlannedQuery, ...]
    tiles: tuple[PlannedTiles, ...]
    changes: tuple[str, ...]
    refused: tuple[str, ...]
    schemas: tuple[str, ...] = ()  # of a stream with a registry: their source, and their effect
    comes_from: str | None = None  # an external source, without its address

    def _repr_html_(self) -> str:
        summary = "; ".join((*self.changes, *(f"REFUSED: {refusal}" for refusal in self.refused)))
        rows = [(query.name, query.reads, ", ".join(query.writes), query.lane, query.why) for query in self.queries]
        return render_html(self.stream, summary, ("query", "reads", "writes", "lane", "why"), rows)


LaneDecisionOrError = LaneDecision | DeclarationError  # of a function: its lane, or why it cannot run


def choose_lanes(app: App, spark: SparkSession) -> dict[Derivation, LaneDecisionOrError]:
    """Spark's decision on each function that derives a stream."""
    return {
        derivation: _choose_lane_or_error(spark, function) for derivation, function in stream_functions(app).items()
    }


def _choose_lane_or_error(spark: SparkSession, function: StreamFunction) -> LaneDecisionOrError:
    try:
        return choose_lane(spark.newSession(), function)
    except DeclarationError as error:
        return error


def plan_app(
    app: App, state_folder: Path, lane_decisions: Mapping[Derivation, LaneDecisionOrError] | None = None
) -> tuple[PlannedStream, ...]:
    """The plan of every stream of an app, given the decisions on its functions; nothing is started or written."""
    checked_decisions = _check_checkpoints(app, state_folder, lane_decisions or {})
    return tuple(
        _plan_stream(stream, _stream_views(app, stream), state_folder, checked_decisions) for stream in app.streams
    )


def _check_checkpoints(
    app: App, state_folder: Path, lane_decisions: Mapping[Derivation, LaneDecisionOrError]
) -> dict[Derivation, LaneDecisionOrError]:
    """The decisions on functions, and whether existing checkpoints can follow them."""
    functions, checked_decisions = stream_functions(app), dict(lane_decisions)
    for derivation, decision in lane_decisions.items():
        if isinstance(decision, LaneDecision):
            checkpoint = state_folder.resolve() / "checkpoints" / derivation.name / "derive"
            checked_decisions[derivation] = (
                find_incompatibility(functions[derivation], decision, checkpoint) or decision
            )
    return checked_decisions


class StreamViews(NamedTuple):
    """The views of a stream: of its events, and of the rows of a captured table."""

    event_views: tuple[View, ...]
    row_views: tuple[View, ...]


def _stream_views(app: App, stream: Stream) -> StreamViews:
    return StreamViews(app.views_of(stream), tuple(view for view in app.views if view.captured_table == stream))


def _plan_stream(
    stream: Stream, views: StreamViews, state_folder: Path, lane_decisions: Mapping[Derivation, LaneDecisionOrError]
) -> PlannedStream:
    query_versions = plan_query_versions(stream, views.event_views, state_folder, stream.partitions)
    all_views = (*views.event_views, *views.row_views)
    operation_versions = [
        *_operation_versions(stream, state_folder),
        *(plan_operation_version(retractable_view_operation(view), state_folder) for view in views.row_views),
    ]
    version_plans: list[OperationVersion | QueryVersionPlan] = [*operation_versions, query_versions]
    derivation_queries = (
        (_plan_derivation(stream, lane_decisions.get(stream.made_by)),) if isinstance(stream, DerivedStream) else ()
    )
    return PlannedStream(
        stream=stream.name,
        topics=(stream.name, *fate_topics(stream), *(view.topic for view in all_views)),
        queries=(
            *derivation_queries,
            *_plan_capture(stream),
            _plan_gate(stream, query_versions.partitions),
            *_plan_tile_queries(stream, query_versions),
            *(_plan_retractable_view(stream, view) for view in views.row_views),
        ),
        tiles=tuple(_plan_tiles(stream, view, layout) for view in all_views for layout in hop_layouts(view)),
        changes=tuple(dict.fromkeys(change for version_plan in version_plans for change in version_plan.changes))
        or NO_CHANGES,
        refused=(
            *(f"{reason} {one.advice}" for one in version_plans for reason in one.refusals),
            *_lane_refusals(stream, lane_decisions),
        ),
        schemas=_describe_schemas(stream),
        comes_from=None if stream.from_ is None else stream.from_.display_name,
    )


def _describe_schemas(stream: Stream) -> tuple[str, ...]:
    encoded = stream.encoding
    if encoded is None:
        return ()
    subject_text = (
        f", whose version {stream.registered_schema.version} has its columns"
        if stream.registered_schema is not None
        else ""
    )
    return (f"{encoded.format}, by the versions of {encoded.subject}{subject_text}",)


def _operation_versions(stream: Stream, state_folder: Path) -> list[OperationVersion]:
    """The version of the operation that writes a stream, if one does."""
    derivation = stream.made_by if isinstance(stream, DerivedStream) else None
    return [plan_operation_version(derivation, state_folder)] if isinstance(derivation, StreamOperation) else []


def _lane_refusals(stream: Stream, lane_decisions: Mapping[Derivation, LaneDecisionOrError]) -> tuple[str, ...]:
    decision = lane_decisions.get(stream.made_by) if isinstance(stream, DerivedStream) else None
    return (str(decision),) if isinstance(decision, DeclarationError) else ()


def _plan_derivation(stream: DerivedStream, decision: LaneDecisionOrError | None) -> PlannedQuery:
    """The derivation of a stream: by a function, which Spark has analyzed, or by an operation."""
    inputs = stream.made_by.inputs
    lane, reason, remembers = _lane_reason_and_state(stream.made_by, decision)
    return PlannedQuery(
        name=stream.made_by.query,
        reads=", ".join(input_stream.clean for input_stream in inputs),
        writes=(stream.name,),
        lane=lane,
        why=reason,
        task_slots=sum(one.partitions for one in inputs),
        remembers=remembers,
    )


def _lane_reason_and_state(derivation: Derivation, decision: LaneDecisionOrError | None) -> tuple[str, str, str]:
    """The lane of a derivation, the reason, and its state."""
    if isinstance(decision, DeclarationError):
        return "no", "refused", "nothing"
    if decision is None:
        return "micro-batch", OPERATOR_LANE_REASON, "what its operator keeps of each key"
    remembered_ids = " and ".join(
        f"each id of {input_stream.name} for {duration_text(watermark_delay_us(input_stream))}"
        for input_stream in derivation.inputs
    )
    return (
        decision.lane.value,
        decision.reason,
        f"{remembered_ids}, and what it keeps" if decision.keeps_state else "nothing",
    )


def _plan_gate(stream: Stream, partitions: int) -> PlannedQuery:
    lane = fastest_gate_lane(stream)
    reason = GATE_LANE_REASON if lane is Lane.REAL_TIME else PYTHON_LANE_REASON
    return PlannedQuery(
        f"{stream.name}.gate", stream.name, tuple(fate_topics(stream)), lane.value, reason, partitions, "nothing"
    )


def _plan_tile_queries(stream: Stream, query_versions: QueryVersionPlan) -> list[PlannedQuery]:
    retention = duration_text(watermark_delay_us(stream))
    return [
        PlannedQuery(
            name=version.build_query_name(stream),
            reads=stream.clean + _cutover_suffix(stream, version),
            writes=tuple(view.topic for view in version.views),
            lane="real-time",
            why=TILES_LANE_REASON,
            task_slots=3 * query_versions.partitions,
            remembers=f"each id for {retention}, each tile for its hop and {retention}",
        )
        for version in query_versions.versions
    ]


def _plan_capture(stream: Stream) -> Iterator[PlannedQuery]:
    """The capture of a table, where Headrace captures it."""
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


def _plan_retractable_view(stream: Stream, view: View) -> PlannedQuery:
    """The query that computes a view of a captured table's rows."""
    return PlannedQuery(
        name=retractable_view_operation(view).query,
        reads=stream.clean,
        writes=(view.topic,),
        lane="micro-batch",
        why=OPERATOR_LANE_REASON,
        task_slots=2 * stream.partitions,
        remembers="the rows of each entity that the table has now",
    )


def _cutover_suffix(stream: Stream, version: QueryVersion) -> str:
    return f" after its history, from {version.cutover.describe(stream.name)} on" if version.cutover else ""


def _plan_tiles(stream: Stream, view: View, layout: HopLayout) -> PlannedTiles:
    state_retention_us = layout.hop_us + watermark_delay_us(stream)
    return PlannedTiles(
        view=view.name,
        hop=duration_text(layout.hop_us),
        tiles_online=None if layout.is_kept_forever else -(-layout.retention_us // layout.hop_us),
        bytes_a_tile=layout.row_struct.size + sum(slot.partial.max_bytes(slot) for slot in layout.slots),
        tiles_in_state=-(-state_retention_us // layout.hop_us),
        features=tuple(feature.name for feature in view.features if feature.window.hop_us == layout.hop_us),
        beside=tuple(other_stream.name for other_stream in view.streams if other_stream != stream),
        salt=view.salt,
    )


def to_json(plan: tuple[PlannedStream, ...]) -> list[dict[str, Any]]:
    """The plan as JSON values."""
    return [asdict(stream) for stream in plan]


def to_text(plan: tuple[PlannedStream, ...]) -> str:
    """The plan as text."""
    return "\n\n".join("\n".join(_format_stream(stream)) for stream in plan)


def _format_online_tiles(tiles: PlannedTiles) -> str:
    if tiles.tiles_online is None:
        return f"one tile a key online for every {tiles.hop} with events, for ever"
    return f"at most {tiles.tiles_online} tiles a key online"


def _format_other_streams(tiles: PlannedTiles) -> str:
    return f", merged with those from {' and '.join(tiles.beside)}" if tiles.beside else ""


def _format_salt(tiles: PlannedTiles) -> str:
    return f", each in up to {tiles.salt} parts" if tiles.salt > 1 else ""


def _format_stream(stream: PlannedStream) -> list[str]:
    query_lines = [
        line
        for query in stream.queries
        for line in (
            f"  {query.name}: {query.reads} → {', '.join(query.writes)}",
            f"      {query.lane} lane ({query.why}); {query.task_slots} task slots; remembers {query.remembers}",
        )
    ]
    tile_lines = [
        f"  {planned_tiles.view} every {planned_tiles.hop}{_format_other_streams(planned_tiles)}: "
        f"{_format_online_tiles(planned_tiles)}, "
        f"{planned_tiles.tiles_in_state} in state, {planned_tiles.bytes_a_tile} bytes "
        f"each{_format_salt(planned_tiles)} → {', '.join(planned_tiles.features)}"
        for planned_tiles in stream.tiles
    ]
    return [
        f"{stream.stream}",
        f" topics: {', '.join(stream.topics)}",
        *([f" comes from: {stream.comes_from}, by a bridge"] if stream.comes_from else []),
        " queries:",
        *query_lines,
        *([" tiles:", *tile_lines] if tile_lines else []),
        *([" schemas:", *(f"  {schema_line}" for schema_line in stream.schemas)] if stream.schemas else []),
        " since the last run:",
        *(f"  {change}" for change in stream.changes),
        *(f"  REFUSED: {reason}" for reason in stream.refused),
    ]
