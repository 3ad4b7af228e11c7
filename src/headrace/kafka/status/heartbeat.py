"""The heartbeat of parts, queries and connectors: each reports every second to one compacted topic."""

import orjson

from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.reports.connectors import CaptureProgress, SourceProgress
from headrace.kafka.status.reports.progress_report import ProgressReport

PROGRESS_TOPIC = "headrace.progress"
SILENT_AFTER_US = 15_000_000


def is_stalled(progress: SourceProgress | CaptureProgress, now_us: int) -> bool:
    """Whether a report contains an error or is outdated."""
    return bool(progress.trouble) or now_us - progress.at_us > SILENT_AFTER_US


def ensure_progress_topic(broker: str) -> None:
    """Create the progress topic if it is missing."""
    ensure_compacted_topic(broker, PROGRESS_TOPIC)


def publish_progress(producer: Producer, progress: ProgressReport) -> None:
    """Send a report, which replaces the previous one of its subject."""
    producer.send(PROGRESS_TOPIC, orjson.dumps(progress.to_json()), key=progress.key)
