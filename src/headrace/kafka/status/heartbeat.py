"""How the queries fare: each reports every second to one compacted topic, and whoever serves knows what runs."""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

import orjson

from headrace.declare.features.view import View
from headrace.declare.operations.operation import DerivedStream
from headrace.declare.streams.stream import Stream
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord

PROGRESS_TOPIC = "headrace.progress"
SILENT_AFTER_US = 15_000_000


@dataclass(frozen=True)
class QueryProgress:
    """What one query last said of itself; figures of its state are as old as its last checkpoint."""

    query: str
    stream: str
    views: tuple[str, ...]
    lane: str
    running: bool
    at_us: int
    watermark_us: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    dropped_by_watermark: int = 0
    checkpoint_ms: int | None = None
    reached: dict[str, int] = field(default_factory=dict)  # the next offset of each partition, at the last checkpoint
    derives: tuple[str, ...] = ()
    restarts: int = 0  # since its driver started
    down_since_us: int | None = None  # None while it runs
    error: str = ""  # why it failed last, in one sentence; stays until it has run steadily again

    @property
    def key(self) -> str:
        return self.query

    @property
    def is_gate(self) -> bool:
        return not self.views and not self.derives


@dataclass(frozen=True)
class ConsistencyCheckProgress:
    """How many answers of a view were compared with what its events say, and how many values were what."""

    checked: str
    at_us: int
    answers: int
    outcomes: dict[str, int]

    @property
    def key(self) -> str:
        return f"check {self.checked}"


@dataclass(frozen=True)
class IngestionProgress:
    """The last step of a table of the lake: how many records it took and left, and how long that lasted."""

    landed: str
    at_us: int
    taken: int
    left: int
    seconds: float
    topic: str = ""
    reached: dict[str, int] = field(default_factory=dict)  # the next offset of each of its partitions
    down_since_us: int | None = None  # since when no step has succeeded; None once one has
    error: str = ""  # why the last step failed, in one sentence

    @property
    def key(self) -> str:
        return f"lake {self.landed}"


@dataclass(frozen=True)
class MaintenanceProgress:
    """The last maintenance of a table of the lake: compaction, retention and the removal of files."""

    maintained: str
    at_us: int
    down_since_us: int | None = None  # since when it fails; None once it has succeeded
    error: str = ""  # why it failed last, in one sentence

    @property
    def key(self) -> str:
        return f"maintenance {self.maintained}"


@dataclass(frozen=True)
class PartProgress:
    """The state of one part (process) of a running app, as its supervisor sees it."""

    part: str
    at_us: int
    state: str  # "starting", "running", "restarting" or "stopped"
    restarts: int = 0
    down_since_us: int | None = None  # None while it runs
    error: str = ""  # why it ended last, in one sentence
    affects: str = ""  # what does not work while it is down, in one sentence
    app: str = ""  # several apps may run on one broker

    @property
    def key(self) -> str:
        return f"part {self.app} {self.part}"


@dataclass(frozen=True)
class ScorerProgress:
    """What one scorer has done of one model since it began: how many predictions of each version and role, how many
    were degraded by what, how many took how long from arrival to decision, what is left in the log, and what keeps it
    from scoring now.
    """

    scored: str
    scorer: str
    at_us: int
    lag: int
    predictions: list[list[Any]]
    degraded: dict[str, int]
    delays: list[int]
    delay_seconds: float
    trouble: str = ""

    @property
    def key(self) -> str:
        return f"score {self.scored} {self.scorer}"


@dataclass(frozen=True)
class SinkProgress:
    """What one copy of a sink has done since it began: how many rows of each fate, how many it parked for which
    reason, how often it had to try again, and what keeps it from going on now.
    """

    sunk: str
    copy: str
    at_us: int
    rows: dict[str, int]
    parked: dict[str, int]
    retries: int
    trouble: str

    @property
    def key(self) -> str:
        return f"sink {self.sunk} {self.copy}"


@dataclass(frozen=True)
class OutboxProgress:
    """What one relay of an outbox has done since it began: how many rows of each fate, how many it parked for which
    reason, how often it had to try again, how old the oldest row was that it last read, and what keeps it from going
    on now.
    """

    relayed: str
    copy: str
    at_us: int
    rows: dict[str, int]
    parked: dict[str, int]
    retries: int
    waited_seconds: float
    trouble: str

    @property
    def key(self) -> str:
        return f"outbox {self.relayed} {self.copy}"


@dataclass(frozen=True)
class CaptureProgress:
    """How the capture of a table fares: how much of its database's log is kept for it, and what keeps it from going on
    now.
    """

    captured: str
    at_us: int
    kept_bytes: int
    trouble: str

    @property
    def key(self) -> str:
        return f"capture {self.captured}"


@dataclass(frozen=True)
class SourceProgress:
    """What a bridge has copied of a stream since it began, what was left in the other log when it last looked, and what
    keeps it from going on now.
    """

    bridged: str
    at_us: int
    copied: int
    left: int
    trouble: str

    @property
    def key(self) -> str:
        return f"bridge {self.bridged}"


@dataclass(frozen=True)
class AlertingProgress:
    """What the one who watches last did: how many alerts fire, what became of notifications by sink, and of what was
    pushed by signal.
    """

    watched: str
    at_us: int
    firing: int
    notifications: dict[str, dict[str, int]]
    pushes: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"watch {self.watched}"


@dataclass(frozen=True)
class OutcomesProgress:
    """What came of a model's predictions so far: how many of each version and role stand how, how long first labels
    took, up to when the log is known to have been read, what is remembered, and what is left in the log.
    """

    judged: str
    at_us: int
    running: bool
    clock_us: int
    lag: int
    counts: list[list[Any]]
    delays: list[int]
    delay_seconds: float
    state_rows: int
    state_bytes: int
    down_since_us: int | None = None  # since when it fails; None while it runs
    error: str = ""  # why it failed last, in one sentence

    @property
    def key(self) -> str:
        return f"outcomes {self.judged}"


@dataclass(frozen=True)
class DriftProgress:
    """What a model is served beside what its champion was trained on: of how many rows of the window, the greatest
    multiple of any column (above 1 is drift; None where nothing can be judged), multiples and statistics of columns,
    what drifted with the heaviest first; what became of records, and how many are left in the log. Where labels come,
    the share of outcomes that are wrong lately, and how often that was suspected and confirmed to be more.
    """

    compared: str
    at_us: int
    version: str | None
    window_us: int
    rows: int
    multiple: float | None
    columns: dict[str, float]
    statistics: dict[str, dict[str, float]]
    ranked: list[dict[str, Any]]
    fates: dict[str, int]
    lag: int
    error_share: float | None = None
    error_changes: dict[str, int] = field(default_factory=dict)
    down_since_us: int | None = None  # since when it fails; None while it runs
    error: str = ""  # why it failed last, in one sentence

    @property
    def key(self) -> str:
        return f"drift {self.compared}"


@dataclass(frozen=True)
class QualityProgress:
    """How good a model is by the outcomes that are due: the share of its card's quality that it has lost beyond doubt,
    and of predictions whose label has come; None where too little is known.
    """

    measured: str
    at_us: int
    lost: float | None
    coverage: float | None

    @property
    def key(self) -> str:
        return f"quality {self.measured}"


ProgressReport = (
    QueryProgress
    | ConsistencyCheckProgress
    | IngestionProgress
    | MaintenanceProgress
    | PartProgress
    | ScorerProgress
    | SinkProgress
    | OutboxProgress
    | SourceProgress
    | CaptureProgress
    | AlertingProgress
    | OutcomesProgress
    | DriftProgress
    | QualityProgress
)


ProgressT = TypeVar("ProgressT")
LOGGER = logging.getLogger("headrace.log")


def is_stalled(progress: SourceProgress | CaptureProgress, now_us: int) -> bool:
    """Whether who said this cannot go on, or has fallen silent."""
    return bool(progress.trouble) or now_us - progress.at_us > SILENT_AFTER_US


def ensure_progress_topic(broker: str) -> None:
    """Create the topic where it is missing."""
    ensure_compacted_topic(broker, PROGRESS_TOPIC)


def publish_progress(producer: Producer, progress: ProgressReport) -> None:
    """Send what a part has done so far; it takes the place of what it said before."""
    producer.send(PROGRESS_TOPIC, orjson.dumps(asdict(progress)), key=progress.key)


def _parse_progress(progress_type: type[ProgressT], message: dict[str, Any]) -> ProgressT:
    """A report by the fields that are known here; a newer version may write others."""
    known_fields = [attribute.name for attribute in fields(progress_type)]  # type: ignore[arg-type]
    values = {name: message[name] for name in known_fields if name in message}
    return progress_type(**values | {name: tuple(values[name]) for name in ("views", "derives") if name in values})


# The field that only one kind of report has: where the board keeps it, its kind, and what it is kept by.
PROGRESS_TYPES: dict[str, tuple[str, type[ProgressReport], tuple[str, ...]]] = {
    "query": ("queries", QueryProgress, ("query",)),
    "checked": ("checks", ConsistencyCheckProgress, ("checked",)),
    "landed": ("ingestions", IngestionProgress, ("landed",)),
    "maintained": ("maintenance", MaintenanceProgress, ("maintained",)),
    "part": ("parts", PartProgress, ("app", "part")),
    "scored": ("scorers", ScorerProgress, ("scored", "scorer")),
    "sunk": ("sinks", SinkProgress, ("sunk", "copy")),
    "relayed": ("outboxes", OutboxProgress, ("relayed", "copy")),
    "bridged": ("sources", SourceProgress, ("bridged",)),
    "captured": ("captures", CaptureProgress, ("captured",)),
    "watched": ("alerting", AlertingProgress, ("watched",)),
    "judged": ("outcomes", OutcomesProgress, ("judged",)),
    "compared": ("drifts", DriftProgress, ("compared",)),
    "measured": ("qualities", QualityProgress, ("measured",)),
}


class ProgressTable:
    """The latest word of whoever tells how far it is: queries, checks, tables, scorers, sinks, bridges, watchers."""

    def __init__(self) -> None:
        self.queries: dict[str, QueryProgress] = {}
        self.checks: dict[str, ConsistencyCheckProgress] = {}
        self.ingestions: dict[str, IngestionProgress] = {}
        self.maintenance: dict[str, MaintenanceProgress] = {}
        self.parts: dict[tuple[str, str], PartProgress] = {}  # by app and part
        self.scorers: dict[tuple[str, str], ScorerProgress] = {}
        self.sinks: dict[tuple[str, str], SinkProgress] = {}
        self.outboxes: dict[tuple[str, str], OutboxProgress] = {}
        self.sources: dict[str, SourceProgress] = {}
        self.captures: dict[str, CaptureProgress] = {}
        self.alerting: dict[str, AlertingProgress] = {}
        self.outcomes: dict[str, OutcomesProgress] = {}
        self.drifts: dict[str, DriftProgress] = {}
        self.qualities: dict[str, QualityProgress] = {}

    def apply(self, records: Iterable[ConsumerRecord]) -> None:
        """Take in what was reported; what cannot be read is passed over, for others must not suffer from it."""
        for record in records:
            if record.value is not None:
                try:
                    self._apply_message(orjson.loads(record.value))
                except (ValueError, KeyError, TypeError) as error:
                    LOGGER.warning("%s is no report of progress: %s", record.location, error)

    def _apply_message(self, message: dict[str, Any]) -> None:
        for marker, (attribute, progress_type, key_fields) in PROGRESS_TYPES.items():
            if marker in message:
                key_values = [message.get(name, "") for name in key_fields]
                getattr(self, attribute)[key_values[0] if len(key_values) == 1 else tuple(key_values)] = (
                    _parse_progress(progress_type, message)
                )
                return

    def missing_queries(self, streams: Sequence[Stream], views: Sequence[View], now_us: int | None = None) -> list[str]:
        """What does not run yet, or has fallen silent, a sentence each."""
        now_us = now_us or time.time_ns() // 1000
        running = [
            progress
            for progress in self.queries.values()
            if progress.running and now_us - progress.at_us < SILENT_AFTER_US
        ]
        gated_streams = {said.stream for said in running if said.is_gate}
        computed_tiles = {(said.stream, view) for said in running for view in said.views}
        derived_streams = {stream for said in running for stream in said.derives}
        return [
            *(
                f"{stream.name} is not derived yet"
                for stream in streams
                if isinstance(stream, DerivedStream) and stream.name not in derived_streams
            ),
            *(f"the gate of {stream.name} does not run yet" for stream in streams if stream.name not in gated_streams),
            *(
                f"the tiles of {_describe_tiles(view, stream)} are not computed yet"
                for view in views
                for stream in view.streams
                if (stream.name, view.name) not in computed_tiles
            ),
        ]


def _describe_tiles(view: View, stream: Stream) -> str:
    return view.name if len(view.streams) == 1 else f"{view.name} from {stream.name}"
