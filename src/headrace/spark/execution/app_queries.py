"""The queries of an app: a gate for each stream, a tiles query for each version of its views, and derivations."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from headrace.declare.app import App
from headrace.declare.names import query_name
from headrace.declare.operations.derived_stream import Derivation, StreamOperation
from headrace.declare.streams.stream import Stream
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.status.heartbeat import ensure_progress_topic
from headrace.kafka.topics import TopicSetup, ensure_topics
from headrace.spark.checkpoints.checkpoint_files import has_committed_batch
from headrace.spark.checkpoints.state_plan import plan_state
from headrace.spark.derived_streams.checkpoint_compatibility import require_compatible_checkpoint
from headrace.spark.derived_streams.derived_query import LaneDecision, StreamFunction, derive_records
from headrace.spark.derived_streams.poison_records import PoisonRecordHandler
from headrace.spark.execution.lanes import Lane, QuerySpec
from headrace.spark.execution.watermark_delay import watermark_delay_us
from headrace.spark.gate.gate import apply_gate
from headrace.spark.gate.registry_decoder import fastest_gate_lane
from headrace.spark.gate.schema_cache import SchemaCache
from headrace.spark.stateful.operation_versions import OperationVersion, plan_operation_version
from headrace.spark.tiles.query_versions import QueryVersion, QueryVersionPlan, plan_query_versions
from headrace.spark.tiles.tile_query import SHUFFLE_COUNT, TileFoldConfig, TilePlan, compute_tiles

LOGGER = logging.getLogger("headrace.stream")


@dataclass(frozen=True)
class StreamingConfig:
    """The settings of queries: the broker, the state folder, the streams to rebuild, and the lane."""

    broker: str
    state_folder: Path
    rebuild: frozenset[str] = frozenset()
    lane: Lane = Lane.REAL_TIME
    checkpoint_seconds: int = 300
    since_us: int | None = None  # where rebuilt operations start; None: with the earliest record


@dataclass(frozen=True)
class QueryPartitions:
    """The partitions that a query reads, which may grow, and those of its state, which are fixed at its start."""

    source: int
    state: int


@dataclass(frozen=True)
class AppQueryPlan:
    """The queries of an app, before they start; functions that derive streams are not analyzed yet."""

    specs: tuple[QuerySpec, ...]
    query_versions: tuple[QueryVersionPlan, ...]
    partition_counts: Mapping[str, int]
    derivations: tuple[Derivation, ...] = ()
    operation_versions: tuple[OperationVersion, ...] = ()
    changelog_partitions: Mapping[str, int] = field(default_factory=dict)

    @property
    def query_task_slots(self) -> int:
        """The task slots that all queries of a streaming process hold at once."""
        function_derivations = [
            derivation for derivation in self.derivations if not isinstance(derivation, StreamOperation)
        ]
        return sum(spec.task_slots for spec in self.specs) + self._count_input_partitions(function_derivations)

    @property
    def operation_task_slots(self) -> int:
        """The task slots all operations may use at once."""
        return self._count_input_partitions([version.operation for version in self.operation_versions])

    def _count_input_partitions(self, derivations: Sequence[Derivation]) -> int:
        return sum(
            self.partition_counts[input_stream.name] for derivation in derivations for input_stream in derivation.inputs
        )


def plan_queries(app: App, config: StreamingConfig) -> AppQueryPlan:
    """Create the topics and plan the queries; raises where the saved state is incompatible."""
    topic_setup = ensure_topics(config.broker, app.streams, app.views, app.models)
    ensure_progress_topic(config.broker)
    for warning in topic_setup.warnings:
        LOGGER.warning(warning)
    state_plan = plan_state(app, config.state_folder, config.rebuild, topic_setup.stream_partitions, config.since_us)
    for version_plan in state_plan.query_versions:
        _require_cutovers_in_log(version_plan, config)
    specs = tuple(spec for plan in state_plan.query_versions for spec in _query_specs(plan, config, topic_setup))
    return AppQueryPlan(
        specs,
        state_plan.query_versions,
        topic_setup.stream_partitions,
        app.derivations,
        state_plan.operation_versions,
        topic_setup.changelog_partitions,
    )


def list_checkpoints(app: App, state_folder: Path) -> list[str]:
    """The checkpoints of all queries of an app, started or not, as STREAM/QUERY in the folder of checkpoints."""
    version_plans = [
        plan_query_versions(stream, app.views_of(stream), state_folder, stream.partitions) for stream in app.streams
    ]
    gate_checkpoints = [f"{stream.name}/gate" for stream in app.streams]
    tile_checkpoints = [
        f"{version_plan.stream.name}/tiles-{version.number}"
        for version_plan in version_plans
        for version in version_plan.versions
    ]
    derivation_checkpoints = [_derivation_checkpoint(derivation, state_folder) for derivation in app.derivations]
    return [*gate_checkpoints, *tile_checkpoints, *derivation_checkpoints]


def _derivation_checkpoint(derivation: Derivation, state_folder: Path) -> str:
    if isinstance(derivation, StreamOperation):
        return f"{derivation.name}/{plan_operation_version(derivation, state_folder).checkpoint(state_folder).name}"
    return f"{derivation.name}/derive"


def _require_cutovers_in_log(version_plan: QueryVersionPlan, config: StreamingConfig) -> None:
    """Reject a query that would start after its cutover: records before the log's start would not be counted."""
    for version in version_plan.versions:
        if version.cutover is not None and not has_committed_batch(
            _tiles_checkpoint(version_plan.stream, version, config)
        ):
            start_offsets = OffsetClient(config.broker).start_offset_list(version_plan.stream.clean)
            version.cutover.require_within_log(version.views[0].name, version_plan.stream.clean, start_offsets)


def _tiles_checkpoint(stream: Stream, version: QueryVersion, config: StreamingConfig) -> Path:
    return config.state_folder.resolve() / "checkpoints" / stream.name / f"tiles-{version.number}"


def _query_specs(
    version_plan: QueryVersionPlan, config: StreamingConfig, topic_setup: TopicSetup
) -> Iterable[QuerySpec]:
    source_partitions = topic_setup.stream_partitions[version_plan.stream.name]
    yield gate_spec(version_plan.stream, config, source_partitions)
    for version in version_plan.versions:
        yield tiles_spec(
            version_plan.stream,
            version,
            config,
            QueryPartitions(source_partitions, version_plan.partitions),
            topic_setup.changelog_partitions,
        )


def gate_spec(stream: Stream, config: StreamingConfig, partitions: int) -> QuerySpec:
    """The query that classifies a stream's raw records."""
    checkpoint = config.state_folder.resolve() / "checkpoints" / stream.name / "gate"
    schema_cache = None if stream.encoding is None else SchemaCache(stream, config.broker, checkpoint)
    return QuerySpec(
        name=query_name(stream.name, "gate"),
        stream=stream.name,
        views=(),
        broker=config.broker,
        source_topics=(stream.name,),
        source_partitions=partitions,
        shuffle_partitions=partitions,
        shuffle_count=0,
        linger_ms=0,
        checkpoint_seconds=config.checkpoint_seconds,
        checkpoint=checkpoint,
        build=lambda raw_frames, _lane: apply_gate(
            raw_frames[0], stream, None if schema_cache is None else schema_cache.known_schemas
        ),
        lane=fastest_gate_lane(stream),
        repair=None if schema_cache is None else schema_cache.repair,
        side_input=None if schema_cache is None else schema_cache.refresh_schemas,
    )


def tiles_spec(
    stream: Stream,
    version: QueryVersion,
    config: StreamingConfig,
    partitions: QueryPartitions,
    changelog_partitions: Mapping[str, int],
) -> QuerySpec:
    """The tiles query of a version's views, whose changelogs have this many partitions."""
    tile_plan = TilePlan(stream, version.views)

    def build(clean_frames: Sequence[DataFrame], lane: Lane) -> DataFrame:
        fold_config = TileFoldConfig(tile_plan, changelog_partitions, watermark_delay_us(stream, lane is Lane.DRAINING))
        return compute_tiles(clean_frames[0], fold_config, version.cutover)

    return QuerySpec(
        name=version.build_query_name(stream),
        stream=stream.name,
        views=tuple(view.name for view in version.views),
        broker=config.broker,
        source_topics=(stream.clean,),
        source_partitions=partitions.source,
        shuffle_partitions=partitions.state,
        shuffle_count=SHUFFLE_COUNT,
        # One event is a tile of every view and hop: lingering for a millisecond sends them in one request.
        linger_ms=1,
        checkpoint_seconds=config.checkpoint_seconds,
        checkpoint=_tiles_checkpoint(stream, version, config),
        build=build,
        # The dedup state has every id of the history before the first record that might repeat one, in any partition.
        first_batch_ends=None if version.cutover is None else version.cutover.clean,
    )


def derive_spec(
    function: StreamFunction, decision: LaneDecision, config: StreamingConfig, partition_counts: Mapping[str, int]
) -> QuerySpec:
    """The query that derives a stream by a function, whose parents have this many partitions."""
    name, parents = function.derivation.name, function.parents
    checkpoint = config.state_folder.resolve() / "checkpoints" / name / "derive"
    require_compatible_checkpoint(function, decision, checkpoint)
    poison_handler = PoisonRecordHandler(function, config.broker, checkpoint)
    max_partitions = max(partition_counts[parent.name] for parent in parents)
    return QuerySpec(
        name=function.derivation.query,
        stream=function.stream.name,
        views=(),
        derives=(function.stream.name,),
        broker=config.broker,
        source_topics=tuple(parent.clean for parent in parents),
        source_partitions=sum(partition_counts[parent.name] for parent in parents),
        shuffle_partitions=max_partitions,
        shuffle_count=0,
        linger_ms=0,
        checkpoint_seconds=config.checkpoint_seconds,
        checkpoint=checkpoint,
        build=lambda clean_frames, lane: derive_records(
            function, decision, clean_frames, lane, poison_handler.skipped_offsets()
        ),
        lane=decision.lane,
        emits_final_rows_only=decision.keeps_state,
        repair=poison_handler.repair,
        side_input=function.derivation.side_input,
    )
