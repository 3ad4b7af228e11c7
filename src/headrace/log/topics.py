"""The topics of an app: which there are, how they are set, and that they are there.

payments            raw: kept 7 days, or as long as the longest window and lateness need; so is a derived stream's
payments.clean …    what the gate made of it: outlives raw, so that each raw record's fate can be told
customers.clean     captured changes: the newest of each key for ever, all for a week
payments.dead.done  what was done with dead letters: compacted
CardSpend.tiles     the changelog: compacted, and kept a day longer than the longest window; for ever where one is
CardSpend.served    a sample of what was served, kept 7 days
fraud.predictions   every score of a model, kept 7 days, or until a day after the last of their labels may come
fraud.quality       what came of them, in tiles: compacted
fraud.lessons       of a model that learns: what it learns from, two to three generations of it
SINK.parked, .again  what the target of a sink refused, and what of it is sent again: kept for ever
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

from headrace.declare.changes import Changes
from headrace.declare.derivation import Derivation, Derived, Operation
from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.declare.recounted import recount_of
from headrace.declare.sink import Sink
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.log.connect import ANSWER_SECONDS, admin_client, metadata, refusal
from headrace.log.offsets import Offsets
from headrace.tiles.layout import SKETCHES, HopLayout, layouts_of, sketch_bytes

Config = dict[str, str]

DAY_MS = UNITS_US["d"] // 1000
RAW_RETENTION_MS = 7 * DAY_MS
LARGEST_RAW = 1 << 20
LARGEST_ELSEWHERE = 9 << 20  # other logs take larger messages: NATS advises 8 MiB at most
ROOM_FOR_HEADERS = 1 << 16
APPEND_TIME: Config = {"message.timestamp.type": "LogAppendTime"}
CLOCK: Config = APPEND_TIME | {"retention.ms": str(DAY_MS)}
SERVED: Config = APPEND_TIME | {"retention.ms": str(RAW_RETENTION_MS)}
# Whoever starts finds the newest row of each key; a week for those who want every change.
CAPTURED: Config = {"cleanup.policy": "compact", "retention.ms": "-1", "min.compaction.lag.ms": str(RAW_RETENTION_MS)}


class PartitionMismatch(HeadraceError):
    """A topic of ours has more partitions than the raw topic it follows: they can only grow."""

    def __init__(self, topic: str, found: int, raw: str, wanted: int) -> None:
        super().__init__(
            f"Topic {topic!r} has {found} partitions and {raw!r}, which it follows, has {wanted}. "
            f"Delete {topic!r} and the state directory, then start again: both are rebuilt from {raw!r}."
        )


@dataclass(frozen=True)
class Topics:
    """What was found or made: partitions by stream name, those of changelogs by view, and what the user should know."""

    partitions: Mapping[str, int]
    changelogs: Mapping[str, int]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topic:
    """A topic as it should be; `raw` is the one whose partitions it follows."""

    name: str
    raw: str
    partitions: int
    config: Config = field(hash=False)


def ensure_topics(
    broker: str, streams: Sequence[Stream], views: Sequence[View] = (), models: Sequence[Model] = ()
) -> Topics:
    """Create the topics that are missing; a raw topic that exists keeps its partitions, the others follow and grow."""
    read = [*(stream for view in views for stream in view.streams), *(model.stream for model in models)]
    streams = tuple(dict.fromkeys([*streams, *read]))
    admin = admin_client(broker)
    existing = _existing(admin, broker)
    given = _configs(admin, broker, [stream.name for stream in streams if stream.name in existing])
    raw = {stream.name: existing.get(stream.name, stream.partitions) for stream in streams}
    changelogs = {view.name: changelog_partitions(view, raw, existing) for view in views}
    of_streams = [
        topic
        for stream in streams
        for topic in topics_of(
            stream, [view for view in views if stream in view.streams], raw[stream.name], given.get(stream.name)
        )
    ]
    of_views = [topic for view in views for topic in topics_of_view(view, changelogs[view.name])]
    of_models = [topic for model in models for topic in topics_of_model(model, raw[model.stream.name])]
    recounts = [recount_of(view) for view in views if view.captured]
    made_by = dict.fromkeys([*map(_made_by, streams), *recounts])
    operations = [one for one in made_by if isinstance(one, Operation)]
    of_operations = [Topic(operation.clock, operation.clock, 1, CLOCK) for operation in operations]
    wanted = [*of_streams, *of_views, *of_models, *of_operations]
    _make_or_grow(admin, broker, wanted, existing)
    retentions = {view.topic: changelog_retention(view) for view in views if view.topic in existing}
    _keep_as_long(admin, broker, retentions)
    _settle(admin, broker, wanted)
    return Topics(raw, changelogs, tuple(_warnings(given)))


def _made_by(stream: Stream) -> Derivation | None:
    return stream.made_by if isinstance(stream, Derived) else None


def ensure_sink_topics(broker: str, sink: Sink) -> None:
    """Create the topics of a sink that are missing, with as many partitions as what it reads has."""
    admin = admin_client(broker)
    partitions = len(Offsets(broker).every_partition([sink.topic]))
    source = _configs(admin, broker, [sink.topic])[sink.topic]
    largest = int(source.get("max.message.bytes", LARGEST_RAW)) + ROOM_FOR_HEADERS
    config = APPEND_TIME | {"retention.ms": "-1", "max.message.bytes": str(largest)}
    wanted = [Topic(name, sink.topic, partitions, config) for name in (sink.parked, sink.again)]
    _make_or_grow(admin, broker, wanted, _existing(admin, broker))
    _settle(admin, broker, wanted)


def largest_record(broker: str, topic: str) -> int:
    """The bytes that a record of a topic may have, headers and all."""
    Offsets(broker).every_partition([topic])
    return int(_configs(admin_client(broker), broker, [topic])[topic]["max.message.bytes"])


def topics_of(stream: Stream, views: Sequence[View], partitions: int, given: Config | None) -> list[Topic]:
    """The raw topic of a stream, which may have been given, and the gate's topics."""
    raw = given or raw_config(stream, views)
    return [
        Topic(stream.name, stream.name, partitions, raw),
        *(Topic(name, stream.name, partitions, fate_config(raw) | _kept_as(stream, name)) for name in fates_of(stream)),
    ]


def _kept_as(stream: Stream, fate: str) -> Config:
    """What is said otherwise of what is clean of captured changes."""
    return CAPTURED if isinstance(stream, Changes) and fate == stream.clean else {}


def topics_of_view(view: View, partitions: int) -> list[Topic]:
    """The changelog of a view, and what it served."""
    raw = view.streams[0].name
    return [
        Topic(view.topic, raw, partitions, changelog_config(view)),
        Topic(view.served, raw, partitions, SERVED),
    ]


def topics_of_model(model: Model, partitions: int) -> list[Topic]:
    """The scores of a model and, where it has labels, what came of them."""
    scores = predictions_of(model, partitions)
    if model.labels is None:
        return [scores]
    quality = APPEND_TIME | {"cleanup.policy": "compact", "segment.ms": str(DAY_MS)}
    raw = model.stream.name
    lessons = APPEND_TIME | {"retention.ms": "-1"}  # whoever teaches lets go of those nobody needs
    learned = [] if model.learn is None else [Topic(model.lessons, raw, 1, lessons)]
    return [scores, Topic(model.quality, raw, 1, quality), Topic(model.clock, raw, 1, CLOCK), *learned]


def predictions_of(model: Model, partitions: int) -> Topic:
    """The scores of a model: they outlive the time in which labels may still come."""
    awaited_ms = 0 if model.labels is None else model.labels.within_us // 1000 + DAY_MS
    kept = {"retention.ms": str(max(RAW_RETENTION_MS, awaited_ms))}
    return Topic(model.predictions, model.stream.name, partitions, APPEND_TIME | kept)


def changelog_partitions(view: View, raw: Mapping[str, int], existing: Mapping[str, int]) -> int:
    """As many as its stream with most has; one that exists keeps its own, so that entities stay where they are."""
    return existing.get(view.topic, max(raw[stream.name] for stream in view.streams))


def fates_of(stream: Stream) -> list[str]:
    """The topics of what may become of a raw record."""
    dropped = [stream.dropped] if stream.late.then == "drop" else []
    return [stream.clean, stream.late_topic, stream.dead, *dropped]


def raw_config(stream: Stream, views: Sequence[View]) -> Config:
    """Raw records stay as long as a rebuild of every window but lifetime ones may need them, a week at least."""
    layouts = [layout for view in views for layout in layouts_of(view)]
    longest_us = max((layout.keep_us for layout in layouts if not layout.is_kept_forever), default=0)
    needed_ms = (longest_us + stream.late.until_us) // 1000 + DAY_MS
    largest = {} if stream.from_ is None else {"max.message.bytes": str(LARGEST_ELSEWHERE)}
    kept = {"retention.ms": str(max(RAW_RETENTION_MS, needed_ms)), "segment.ms": str(DAY_MS)}
    return APPEND_TIME | kept | largest


def fate_config(raw: Config) -> Config:
    """The gate's topics outlive raw by more than a segment: while a raw record is there, so is its fate."""
    retention_ms = int(raw["retention.ms"])
    outlives_ms = retention_ms if retention_ms < 0 else retention_ms + int(raw["segment.ms"]) + DAY_MS
    largest = int(raw.get("max.message.bytes", LARGEST_RAW)) + ROOM_FOR_HEADERS
    return APPEND_TIME | {"retention.ms": str(outlives_ms), "max.message.bytes": str(largest)}


def changelog_config(view: View) -> Config:
    """Only closed segments are compacted: they close after ten minutes, and a tenth of waste is cleaned."""
    return APPEND_TIME | {
        **changelog_retention(view),
        "segment.ms": str(10 * UNITS_US["m"] // 1000),
        "segment.bytes": str(64 << 20),
        "min.cleanable.dirty.ratio": "0.1",
        # After a crash tiles come again, smaller at first: the greater one must be there for a server that starts then.
        "min.compaction.lag.ms": str(15 * UNITS_US["m"] // 1000),
        "max.message.bytes": str(max(_largest_tile(layout) for layout in layouts_of(view))),
    }


def changelog_retention(view: View) -> Config:
    """How long tiles stay: compaction keeps the newest value of each, and time takes those no window holds."""
    if any(layout.is_kept_forever for layout in layouts_of(view)):
        return {"cleanup.policy": "compact", "retention.ms": "-1"}
    longest_us = max(layout.keep_us for layout in layouts_of(view))
    return {"cleanup.policy": "compact,delete", "retention.ms": str(longest_us // 1000 + DAY_MS)}


def _largest_tile(layout: HopLayout) -> int:
    """Every sketch full, in base64, and a usual message's worth of everything else."""
    sketches = sum(4 * sketch_bytes(slot) // 3 + 128 for slot in layout.slots if slot.partial in SKETCHES)
    return LARGEST_RAW + sketches


def _existing(admin: AdminClient, broker: str) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in metadata(admin, broker).topics.items()}


def _configs(admin: AdminClient, broker: str, names: Iterable[str]) -> dict[str, Config]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    try:
        answers = {
            resource.name: answer.result()
            for resource, answer in admin.describe_configs(resources, request_timeout=ANSWER_SECONDS).items()
        }
    except KafkaException as failure:
        raise refusal(broker, "describe topics", failure) from failure
    return {name: {key: entry.value for key, entry in config.items()} for name, config in answers.items()}


def _make_or_grow(admin: AdminClient, broker: str, wanted: Sequence[Topic], existing: Mapping[str, int]) -> None:
    """Create what is missing, and give what follows a topic that has grown as many partitions."""
    for topic in wanted:
        if (found := existing.get(topic.name, 0)) > topic.partitions:
            raise PartitionMismatch(topic.name, found, topic.raw, topic.partitions)
    _create(admin, broker, [topic for topic in wanted if topic.name not in existing])
    _grow(admin, broker, [topic for topic in wanted if existing.get(topic.name, topic.partitions) < topic.partitions])


def _grow(admin: AdminClient, broker: str, small: Sequence[Topic]) -> None:
    new = [NewPartitions(topic.name, topic.partitions) for topic in small]
    answers = admin.create_partitions(new, request_timeout=ANSWER_SECONDS) if new else {}
    _require_done(broker, "add partitions to", answers, "INVALID_PARTITIONS")


def _create(admin: AdminClient, broker: str, missing: Sequence[Topic]) -> None:
    new = [NewTopic(topic.name, num_partitions=topic.partitions, config=topic.config) for topic in missing]
    answers = admin.create_topics(new, request_timeout=ANSWER_SECONDS) if new else {}
    _require_done(broker, "create", answers, "TOPIC_ALREADY_EXISTS")


def _require_done(broker: str, what: str, answers: Mapping[str, Future[None]], done_already: str) -> None:
    """Another process of the same app may have been quicker: partitions are checked afterwards."""
    for name, answer in answers.items():
        try:
            answer.result()
        except KafkaException as failure:
            if failure.args[0].name() != done_already:
                raise refusal(broker, f"{what} topic {name!r}", failure) from failure


def _keep_as_long(admin: AdminClient, broker: str, wanted: Mapping[str, Config]) -> None:
    """A window that was added to a view may need tiles for longer than its changelog was made to keep them."""
    found = _configs(admin, broker, wanted)
    changed = [
        ConfigResource(ResourceType.TOPIC, name, incremental_configs=[_set(*entry) for entry in config.items()])
        for name, config in wanted.items()
        if not config.items() <= found[name].items()
    ]
    answers = admin.incremental_alter_configs(changed, request_timeout=ANSWER_SECONDS) if changed else {}
    for resource, answer in answers.items():
        try:
            answer.result()
        except KafkaException as failure:
            raise refusal(broker, f"change how long {resource.name!r} is kept", failure) from failure


def _set(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def _settle(admin: AdminClient, broker: str, wanted: Sequence[Topic]) -> None:
    """Wait until the broker's topics are as wanted: it answers before every node knows, and others may be at it too."""
    deadline = time.monotonic() + ANSWER_SECONDS
    existing = _existing(admin, broker)
    while any(existing.get(topic.name, 0) < topic.partitions for topic in wanted) and time.monotonic() < deadline:
        time.sleep(0.02)
        existing = _existing(admin, broker)
    for topic in wanted:
        if (found := existing.get(topic.name, 0)) != topic.partitions:
            raise PartitionMismatch(topic.name, found, topic.raw, topic.partitions)
    Offsets(broker).end(topic.name for topic in wanted)  # answered once every partition has a leader


def _warnings(given: Mapping[str, Config]) -> Iterator[str]:
    for name, config in given.items():
        stamped = config.get("message.timestamp.type")
        if stamped != "LogAppendTime":
            yield (
                f"Topic {name!r} has message.timestamp.type={stamped}: producers, not the log, then say when "
                "an event arrived. "
                f"Set it with: kafka-configs --alter --entity-type topics --entity-name {name} "
                "--add-config message.timestamp.type=LogAppendTime"
            )
