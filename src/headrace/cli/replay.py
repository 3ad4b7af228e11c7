"""`headrace replay APP STREAM FILE`: a recording sent to a stream, in order and at a chosen speed."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import click

from headrace.cli.run import stop_on_signals
from headrace.cli.settings import LOG_OPTIONS, BadSetting, log_of, options
from headrace.cli.up import say
from headrace.declare.app import load_app
from headrace.declare.durations import duration_text
from headrace.log.produce import Producer
from headrace.log.recordings import Recording, open_recording
from headrace.log.replay import Clock, Recorded, paced, speed_of
from headrace.log.schemas.encode import framing
from headrace.log.topics import ensure_topics
from headrace.tiles.events import timestamp_us
from headrace.tiles.finish import moment

TELL_SECONDS = 10.0


@dataclass(frozen=True)
class Wanted:
    """How a recording is sent: where, how quick, from when on and how much of it."""

    broker: str
    speed: float | None
    from_us: int | None
    limit: int | None
    in_json: bool


class Tally:
    """What has been sent of a recording, and how far in recorded time that is."""

    def __init__(self, recording: Recording) -> None:
        self._stream, self._of = recording.stream.name, len(recording)
        self._sent = 0
        self._until: str | None = None
        self._started = self._told = time.monotonic()

    def add(self, event: Recorded) -> None:
        self._sent += 1
        if event.due_us is not None:
            self._until = moment(event.due_us).isoformat()

    def tell_now_and_then(self) -> None:
        """Say how far it is, once in a while."""
        if time.monotonic() > self._told + TELL_SECONDS:
            self._told = time.monotonic()
            say(str(self))

    def __str__(self) -> str:
        until = f", recorded until {self._until}" if self._until else ""
        return f"{self._sent:,} of {self._of:,} events to {self._stream}{until}, in {self._seconds:.1f} s"

    def as_json(self) -> str:
        return json.dumps(
            {
                "stream": self._stream,
                "sent": self._sent,
                "of": self._of,
                "until": self._until,
                "seconds": round(self._seconds, 3),
            }
        )

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started


@click.command()
@click.argument("app")
@click.argument("stream")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--speed", default="1x", show_default=True, metavar="10000x|max", help="Recorded seconds a second.")
@click.option("--order-by", metavar="COLUMN", help="Without it the stream's arrival= or, where it has none, time=.")
@click.option("--from", "from_", metavar="TIME", help="Leave out what is earlier, and let recorded time begin there.")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many events.")
@options(LOG_OPTIONS)
@click.option("--json", "in_json", is_flag=True, help="Print JSON.")
def replay(app: str, stream: str, file: Path, **flags: Any) -> None:
    """Send the events of FILE to STREAM of APP, in order and at a chosen speed."""
    wanted = wanted_of(flags)
    declared = load_app(app)
    recording = open_recording(declared.stream(stream), file, flags["order_by"])
    ensure_topics(wanted.broker, [recording.stream], declared.views_of(recording.stream))
    if recording.stream.arrival is None and not wanted.in_json:
        allowed = duration_text(recording.stream.late.until_us)
        say(f"{stream} declares no arrival=: what happened more than {allowed} ago will be late")
    sent = send(recording, wanted, stop_on_signals())
    click.echo(sent.as_json()) if wanted.in_json else say(str(sent))


def wanted_of(flags: dict[str, Any]) -> Wanted:
    """What a command's flags ask for."""
    written = flags["from_"]
    from_us = None if written is None else timestamp_us(written)
    if written is not None and from_us is None:
        raise BadSetting(f"--from {written!r} is not a time. Write ISO 8601, such as 2013-01-01T00:00:00Z.")
    broker = log_of(flags)
    return Wanted(broker, speed_of(flags["speed"]), from_us, flags["limit"], flags["in_json"])


def send(recording: Recording, wanted: Wanted, stop: Event) -> Tally:
    """Produce the recording until its end or until told to stop."""
    tally, clock = Tally(recording), Clock(time.monotonic, stop.wait)
    events, frame = recording.events(wanted.from_us, wanted.limit), framing(recording.stream)
    with Producer(wanted.broker, linger_ms=1) as producer:
        for event in paced(events, wanted.speed, clock, wanted.from_us):
            if stop.is_set():
                break
            producer.send(recording.stream.name, frame(event.value), key=event.key)
            tally.add(event)
            if not wanted.in_json:
                tally.tell_now_and_then()
    return tally
