"""The topics of an app: their names, their configuration, and their creation.

payments            raw: kept 7 days, or as long as the longest window and lateness need; so is a derived stream's
payments.clean …    the gate's results: outlive raw, so that each raw record's fate is known
customers.clean     captured changes: the newest of each key for ever, all for a week
payments.dead.done  states of dead letters: compacted
CardSpend.tiles     the changelog: compacted, and kept a day longer than the longest window; for ever where one is
CardSpend.served    a sample of served values, kept 7 days
fraud.predictions   every score of a model, kept 7 days, or until a day after the last of their labels may come
fraud.quality       outcomes of predictions, in tiles: compacted
fraud.lessons       of a model with online learning: its training examples, two to three generations of them
SINK.parked, .again  rows the target of a sink refused, and those that are replayed: kept for ever
fraud.clock         times up to which its predictions and labels have been read, kept a day; of an operation, its inputs
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, unmarked
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from headrace.declare.durations import UNITS_US
from headrace.declare.features.retractable_views import retractable_view_operation
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.operations.derived_stream import Derivation, DerivedStream, StreamOperation
from headrace.declare.sinks.sink import Sink
from headrace.declare.streams.change_capture import Changes
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.client.client import REQUEST_TIMEOUT_SECONDS, create_admin_client, fetch_metadata, to_headrace_error
from headrace.kafka.offsets import OffsetClient
from headrace.tiles.layout import HopLayout, hop_layouts

TopicConfig = dict[str, str]

DAY_MS = UNITS_US["d"] // 1000
RAW_RETENTION_MS = 7 * DAY_MS
MAX_RAW_BYTES = 1 << 20
MAX_EXTERNAL_BYTES = 9 << 20  # other logs accept larger messages: NATS advises 8 MiB at most
HEADER_BYTES = 1 << 16
LOG_APPEND_TIME: TopicConfig = {"message.timestamp.type": "LogAppendTime"}
CLOCK_CONFIG: TopicConfig = LOG_APPEND_TIME | {"retention.ms": str(DAY_MS)}
SERVED_CONFIG: TopicConfig = LOG_APPEND_TIME | {"retention.ms": str(RAW_RETENTION_MS)}
# A new consumer finds the newest row of each key; a week for those that need every change.
CAPTURED_CONFIG: TopicConfig = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "min.compaction.lag.ms": str(RAW_RETENTION_MS),
}


class PartitionMismatch(HeadraceError):
    """A topic has more partitions than the raw topic it follows: partitions can only be added."""

    def __init__(self, topic: str, actual: int, raw_topic: str, expected: int) -> None:
        super().__init__(
            f"Topic {topic!r} has {actual} partitions and {raw_topic!r}, which it follows, has {expected}. "
            f"Delete {topic!r} and the state directory, then start again: both are rebuilt from {raw_topic!r}."
        )


@dataclass(frozen=True)
class TopicSetup:
    """The result of a set-up: partitions by stream name, those of changelogs by view, and warnings for the user."""

    stream_partitions: Mapping[str, int]
    changelog_partitions: Mapping[str, int]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopicSpec:
    """The wanted configuration of a topic; `raw_topic` is the topic whose partition count it follows."""

    name: str
    raw_topic: str
    partitions: int
    config: TopicConfig = field(hash=False)


def ensure_topics(
    broker: str, streams: Sequence[Stream], views: Sequence[View] = (), models: Sequence[Model] = ()
) -> TopicSetup:
    """Create missing topics; an existing raw topic keeps its partitions, the others follow it and grow."""
    input_streams = [*(stream for view in views for stream in view.streams), *(model.stream for model in models)]
    streams = tuple(dict.fromkeys([*streams, *input_streams]))
    admin = create_admin_client(broker)
    partition_counts = _fetch_partition_counts(admin, broker)
    raw_configs = _fetch_configs(admin, broker, [stream.name for stream in streams if stream.name in partition_counts])
    raw_partitions = {stream.name: partition_counts.get(stream.name, stream.partitions) for stream in streams}
    changelog_counts = {view.name: changelog_partitions(view, raw_partitions, partition_counts) for view in views}
    stream_specs = [
        topic
        for stream in streams
        for topic in stream_topics(
            stream,
            [view for view in views if stream in view.streams],
            raw_partitions[stream.name],
            raw_configs.get(stream.name),
        )
    ]
    view_specs = [topic for view in views for topic in view_topics(view, changelog_counts[view.name])]
    model_specs = [topic for model in models for topic in model_topics(model, raw_partitions[model.stream.name])]
    retraction_operations = [retractable_view_operation(view) for view in views if view.captured_table]
    derivations = dict.fromkeys([*map(_derivation_of_stream, streams), *retraction_operations])
    operations = [derivation for derivation in derivations if isinstance(derivation, StreamOperation)]
    operation_specs = [TopicSpec(operation.clock, operation.clock, 1, CLOCK_CONFIG) for operation in operations]
    specs = [*stream_specs, *view_specs, *model_specs, *operation_specs]
    _create_or_grow(admin, broker, specs, partition_counts)
    retentions = {view.topic: changelog_retention(view) for view in views if view.topic in partition_counts}
    _update_retention(admin, broker, retentions)
    _wait_until_ready(admin, broker, specs)
    return TopicSetup(raw_partitions, changelog_counts, tuple(_timestamp_warnings(raw_configs)))


def _derivation_of_stream(stream: Stream) -> Derivation | None:
    return stream.made_by if isinstance(stream, DerivedStream) else None


def ensure_sink_topics(broker: str, sink: Sink) -> None:
    """Create the missing topics of a sink, with as many partitions as its source."""
    admin = create_admin_client(broker)
    partitions = len(OffsetClient(broker).require_partitions([sink.source_topic]))
    source_config = _fetch_configs(admin, broker, [sink.source_topic])[sink.source_topic]
    max_bytes = int(source_config.get("max.message.bytes", MAX_RAW_BYTES)) + HEADER_BYTES
    config = LOG_APPEND_TIME | {"retention.ms": "-1", "max.message.bytes": str(max_bytes)}
    specs = [TopicSpec(name, sink.source_topic, partitions, config) for name in (sink.parked, sink.again)]
    _create_or_grow(admin, broker, specs, _fetch_partition_counts(admin, broker))
    _wait_until_ready(admin, broker, specs)


def max_record_bytes(broker: str, topic: str) -> int:
    """The maximum size of a record of a topic, headers included."""
    OffsetClient(broker).require_partitions([topic])
    return int(_fetch_configs(create_admin_client(broker), broker, [topic])[topic]["max.message.bytes"])


def stream_topics(
    stream: Stream, views: Sequence[View], partitions: int, existing_raw_config: TopicConfig | None
) -> list[TopicSpec]:
    """The raw topic of a stream, which may exist already, and the gate's topics."""
    base_config = existing_raw_config or raw_config(stream, views)
    return [
        TopicSpec(stream.name, stream.name, partitions, base_config),
        *(
            TopicSpec(name, stream.name, partitions, fate_config(base_config) | _fate_overrides(stream, name))
            for name in fate_topics(stream)
        ),
    ]


def _fate_overrides(stream: Stream, topic: str) -> TopicConfig:
    """Configuration overrides for the clean topic of captured changes."""
    return CAPTURED_CONFIG if isinstance(stream, Changes) and topic == stream.clean else {}


def view_topics(view: View, partitions: int) -> list[TopicSpec]:
    """The changelog of a view, and its served log."""
    raw_topic = view.streams[0].name
    return [
        TopicSpec(view.topic, raw_topic, partitions, changelog_config(view)),
        TopicSpec(view.served, raw_topic, partitions, SERVED_CONFIG),
    ]


def model_topics(model: Model, partitions: int) -> list[TopicSpec]:
    """The predictions of a model and, where it has labels, their outcomes."""
    predictions = predictions_topic(model, partitions)
    if model.labels is None:
        return [predictions]
    quality_config = LOG_APPEND_TIME | {"cleanup.policy": "compact", "segment.ms": str(DAY_MS)}
    raw_topic = model.stream.name
    lessons_config = LOG_APPEND_TIME | {"retention.ms": "-1"}  # OnlineUpdateWriter deletes them
    lessons_specs = [] if model.learn is None else [TopicSpec(model.lessons, raw_topic, 1, lessons_config)]
    return [
        predictions,
        TopicSpec(model.quality, raw_topic, 1, quality_config),
        TopicSpec(model.clock, raw_topic, 1, CLOCK_CONFIG),
        *lessons_specs,
    ]


def predictions_topic(model: Model, partitions: int) -> TopicSpec:
    """The predictions of a model: they outlive the time in which labels may still come."""
    label_wait_ms = 0 if model.labels is None else model.labels.within_us // 1000 + DAY_MS
    retention = {"retention.ms": str(max(RAW_RETENTION_MS, label_wait_ms))}
    return TopicSpec(model.predictions, model.stream.name, partitions, LOG_APPEND_TIME | retention)


def changelog_partitions(view: View, raw_partitions: Mapping[str, int], partition_counts: Mapping[str, int]) -> int:
    """As many as its largest stream; an existing one keeps its own, so that entities stay in their partitions."""
    return partition_counts.get(view.topic, max(raw_partitions[stream.name] for stream in view.streams))


def fate_topics(stream: Stream) -> list[str]:
    """The topics of a raw record's possible fates."""
    dropped = [stream.dropped] if stream.late.then == "drop" else []
    return [stream.clean, stream.late_topic, stream.dead, *dropped]


def raw_config(stream: Stream, views: Sequence[View]) -> TopicConfig:
    """Raw records are kept as long as a rebuild of every window but lifetime ones needs them, a week at least."""
    layouts = [layout for view in views for layout in hop_layouts(view)]
    longest_us = max((layout.retention_us for layout in layouts if not layout.is_kept_forever), default=0)
    needed_ms = (longest_us + stream.late.until_us) // 1000 + DAY_MS
    size_limit = {} if stream.from_ is None else {"max.message.bytes": str(MAX_EXTERNAL_BYTES)}
    retention = {"retention.ms": str(max(RAW_RETENTION_MS, needed_ms)), "segment.ms": str(DAY_MS)}
    return LOG_APPEND_TIME | retention | size_limit


def fate_config(raw_topic_config: TopicConfig) -> TopicConfig:
    """The gate's topics outlive raw by more than a segment: while a raw record exists, so does its fate."""
    retention_ms = int(raw_topic_config["retention.ms"])
    fate_retention_ms = (
        retention_ms if retention_ms < 0 else retention_ms + int(raw_topic_config["segment.ms"]) + DAY_MS
    )
    max_bytes = int(raw_topic_config.get("max.message.bytes", MAX_RAW_BYTES)) + HEADER_BYTES
    return LOG_APPEND_TIME | {"retention.ms": str(fate_retention_ms), "max.message.bytes": str(max_bytes)}


def changelog_config(view: View) -> TopicConfig:
    """Only closed segments are compacted: they close after ten minutes, and a tenth of waste is cleaned."""
    return LOG_APPEND_TIME | {
        **changelog_retention(view),
        "segment.ms": str(10 * UNITS_US["m"] // 1000),
        "segment.bytes": str(64 << 20),
        "min.cleanable.dirty.ratio": "0.1",
        # After a crash tiles are written again, smaller at first: a server that starts then must find the greater one.
        "min.compaction.lag.ms": str(15 * UNITS_US["m"] // 1000),
        "max.message.bytes": str(max(_max_tile_bytes(layout) for layout in hop_layouts(view))),
    }


def changelog_retention(view: View) -> TopicConfig:
    """How long tiles are kept: compaction keeps the newest value of each, retention removes those no window needs."""
    if any(layout.is_kept_forever for layout in hop_layouts(view)):
        return {"cleanup.policy": "compact", "retention.ms": "-1"}
    longest_us = max(layout.retention_us for layout in hop_layouts(view))
    return {"cleanup.policy": "compact,delete", "retention.ms": str(longest_us // 1000 + DAY_MS)}


def _max_tile_bytes(layout: HopLayout) -> int:
    """Every sketch full, in base64, plus a usual message size for everything else."""
    sketches = sum(4 * slot.partial.max_bytes(slot) // 3 + 128 for slot in layout.slots if slot.partial.is_sketch)
    return MAX_RAW_BYTES + sketches


def _fetch_partition_counts(admin: AdminClient, broker: str) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in fetch_metadata(admin, broker).topics.items()}


def _fetch_configs(admin: AdminClient, broker: str, names: Iterable[str]) -> dict[str, TopicConfig]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    try:
        entries_by_topic = {
            resource.name: future.result()
            for resource, future in admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_SECONDS).items()
        }
    except KafkaException as failure:
        raise to_headrace_error(broker, "describe topics", failure) from failure
    return {name: {key: entry.value for key, entry in config.items()} for name, config in entries_by_topic.items()}


def _create_or_grow(
    admin: AdminClient, broker: str, specs: Sequence[TopicSpec], partition_counts: Mapping[str, int]
) -> None:
    """Create missing topics, and add partitions to topics that follow one that has grown."""
    for topic in specs:
        if (count := partition_counts.get(topic.name, 0)) > topic.partitions:
            raise PartitionMismatch(topic.name, count, topic.raw_topic, topic.partitions)
    _create_topics(admin, broker, [topic for topic in specs if topic.name not in partition_counts])
    _add_partitions(
        admin,
        broker,
        [topic for topic in specs if partition_counts.get(topic.name, topic.partitions) < topic.partitions],
    )


def _add_partitions(admin: AdminClient, broker: str, specs: Sequence[TopicSpec]) -> None:
    new_partitions = [NewPartitions(topic.name, topic.partitions) for topic in specs]
    futures = admin.create_partitions(new_partitions, request_timeout=REQUEST_TIMEOUT_SECONDS) if new_partitions else {}
    _require_success(broker, "add partitions to", futures, "INVALID_PARTITIONS")


def _create_topics(admin: AdminClient, broker: str, specs: Sequence[TopicSpec]) -> None:
    new_topics = [NewTopic(topic.name, num_partitions=topic.partitions, config=topic.config) for topic in specs]
    futures = admin.create_topics(new_topics, request_timeout=REQUEST_TIMEOUT_SECONDS) if new_topics else {}
    _require_success(broker, "create", futures, "TOPIC_ALREADY_EXISTS")


def _require_success(broker: str, action: str, futures: Mapping[str, Future[None]], ignored_error: str) -> None:
    """Another process of the same app may have been faster: partitions are checked afterwards."""
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as failure:
            if failure.args[0].name() != ignored_error:
                raise to_headrace_error(broker, f"{action} topic {name!r}", failure) from failure


def _update_retention(admin: AdminClient, broker: str, retentions: Mapping[str, TopicConfig]) -> None:
    """A window that was added to a view may need tiles for longer than its changelog's current retention."""
    current_configs = _fetch_configs(admin, broker, retentions)
    changed_resources = [
        ConfigResource(ResourceType.TOPIC, name, incremental_configs=[_set_entry(*entry) for entry in config.items()])
        for name, config in retentions.items()
        if not config.items() <= current_configs[name].items()
    ]
    futures = (
        admin.incremental_alter_configs(changed_resources, request_timeout=REQUEST_TIMEOUT_SECONDS)
        if changed_resources
        else {}
    )
    for resource, future in futures.items():
        try:
            future.result()
        except KafkaException as failure:
            raise to_headrace_error(broker, f"change the retention of {resource.name!r}", failure) from failure


def _set_entry(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def _wait_until_ready(admin: AdminClient, broker: str, specs: Sequence[TopicSpec]) -> None:
    """Wait until the topics are as wanted: the broker answers before every node knows, and others may change them."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
    partition_counts = _fetch_partition_counts(admin, broker)
    while (
        any(partition_counts.get(topic.name, 0) < topic.partitions for topic in specs) and time.monotonic() < deadline
    ):
        time.sleep(0.02)
        partition_counts = _fetch_partition_counts(admin, broker)
    for topic in specs:
        if (count := partition_counts.get(topic.name, 0)) != topic.partitions:
            raise PartitionMismatch(topic.name, count, topic.raw_topic, topic.partitions)
    OffsetClient(broker).topic_end_offsets(topic.name for topic in specs)  # answered once every partition has a leader


def _timestamp_warnings(raw_configs: Mapping[str, TopicConfig]) -> Iterator[str]:
    for name, config in raw_configs.items():
        timestamp_type = config.get("message.timestamp.type")
        if timestamp_type != "LogAppendTime":
            yield (
                f"Topic {name!r} has message.timestamp.type={timestamp_type}: producers, not the log, then say when "
                "an event arrived. "
                f"Set it with: kafka-configs --alter --entity-type topics --entity-name {name} "
                "--add-config message.timestamp.type=LogAppendTime"
            )
