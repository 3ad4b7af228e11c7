"""`headrace replay APP STREAM FILE`: sends a recording to a stream, in order and at a chosen speed."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import click

from headrace.cli.commands.app.up import print_progress
from headrace.declare.app import load_app
from headrace.declare.durations import duration_text
from headrace.kafka.producer.producer import Producer
from headrace.kafka.producer.recordings import Recording, open_recording
from headrace.kafka.producer.replay import RecordedEvent, ReplayClock, pace_events, parse_speed
from headrace.kafka.schema_registry.record_encoder import create_framer
from headrace.kafka.topics import ensure_topics
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.part_runner import stop_on_signals
from headrace.runtime.settings import BadSetting, broker_from_flags
from headrace.tiles.events.event_parser import parse_timestamp_us
from headrace.tiles.finish import to_datetime

REPORT_SECONDS = 10.0


@dataclass(frozen=True)
class ReplayRequest:
    """How a recording is sent: the target, the speed, the start and the number of events."""

    broker: str
    speed: float | None
    from_us: int | None
    limit: int | None
    in_json: bool


class ReplayProgress:
    """The number of events sent of a recording, and the recorded time reached."""

    def __init__(self, recording: Recording) -> None:
        self._stream, self._total = recording.stream.name, len(recording)
        self._sent = 0
        self._recorded_until: str | None = None
        self._started_at = self._reported_at = time.monotonic()

    def count_event(self, event: RecordedEvent) -> None:
        self._sent += 1
        if event.due_us is not None:
            self._recorded_until = to_datetime(event.due_us).isoformat()

    def report_periodically(self) -> None:
        """Print the progress periodically."""
        if time.monotonic() > self._reported_at + REPORT_SECONDS:
            self._reported_at = time.monotonic()
            print_progress(str(self))

    def __str__(self) -> str:
        until = f", recorded until {self._recorded_until}" if self._recorded_until else ""
        return f"{self._sent:,} of {self._total:,} events to {self._stream}{until}, in {self._seconds:.1f} s"

    def as_json(self) -> str:
        return json.dumps(
            {
                "stream": self._stream,
                "sent": self._sent,
                "of": self._total,
                "until": self._recorded_until,
                "seconds": round(self._seconds, 3),
            }
        )

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started_at


@click.command()
@click.argument("app")
@click.argument("stream")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--speed", default="1x", show_default=True, metavar="10000x|max", help="The speed, in recorded seconds per second."
)
@click.option(
    "--order-by", metavar="COLUMN", help="The column of recorded time; by default the stream's arrival= or else time=."
)
@click.option("--from", "from_", metavar="TIME", help="Skip earlier events, and start recorded time there.")
@click.option("--limit", type=click.IntRange(min=0), help="Send at most this many events.")
@setting_options("broker", "broker_port")
@click.option("--json", "in_json", is_flag=True, help="Print JSON.")
def replay(app: str, stream: str, file: Path, **flags: Any) -> None:
    """Send the events of FILE to STREAM of APP, in order and at a chosen speed."""
    request = parse_request(flags)
    loaded_app = load_app(app)
    recording = open_recording(loaded_app.stream(stream), file, flags["order_by"])
    ensure_topics(request.broker, [recording.stream], loaded_app.views_of(recording.stream))
    if recording.stream.arrival is None and not request.in_json:
        allowed_lateness = duration_text(recording.stream.late.until_us)
        print_progress(f"{stream} declares no arrival=: events older than {allowed_lateness} will be late")
    progress = send_recording(recording, request, stop_on_signals())
    click.echo(progress.as_json()) if request.in_json else print_progress(str(progress))


def parse_request(flags: dict[str, Any]) -> ReplayRequest:
    """Parse the flags of the command."""
    from_text = flags["from_"]
    from_us = None if from_text is None else parse_timestamp_us(from_text)
    if from_text is not None and from_us is None:
        raise BadSetting(f"--from {from_text!r} is not a time. Write ISO 8601, such as 2013-01-01T00:00:00Z.")
    broker = broker_from_flags(flags)
    return ReplayRequest(broker, parse_speed(flags["speed"]), from_us, flags["limit"], flags["in_json"])


def send_recording(recording: Recording, request: ReplayRequest, stop: Event) -> ReplayProgress:
    """Produce the recording until its end or until a stop is requested."""
    progress, clock = ReplayProgress(recording), ReplayClock(time.monotonic, stop.wait)
    events, encode_value = recording.events(request.from_us, request.limit), create_framer(recording.stream)
    with Producer(request.broker, linger_ms=1) as producer:
        for event in pace_events(events, request.speed, clock, request.from_us):
            if stop.is_set():
                break
            producer.send(recording.stream.name, encode_value(event.value), key=event.key)
            progress.count_event(event)
            if not request.in_json:
                progress.report_periodically()
    return progress
