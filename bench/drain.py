"""Section drain: a backlog through gate and tiles, compared with a plain Spark batch that computes the same tiles.

raw topic full ▸ stream started ├ gate's first batch ───────── last tile in the changelog ┤
                 batch started  ├ read, parse, drop duplicates, group, write Parquet ┤
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.app import CardSpend, payments
from bench.batch import Batch
from bench.errors import BenchFailed
from bench.parts import APP, running
from bench.payments import backlog
from bench.results import Result, Table
from bench.section import Run
from bench.topics import lanes, last_append_s, length, tiles
from bench.waiting import wait_for
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics

EVENTS = {"full": 300_000, "quick": 40_000}
RATE = 500.0
QUIET_SECONDS = 5.0
TILES = f"{payments.name}.tiles-1"
LIMIT_SECONDS = 600.0
NOTE = (
    "Each in a new JVM on all cores, 2 % duplicates, three tiles an event. The stream is timed from its gate's first "
    "batch to the last tile in the changelog, both queries at once; the batch from its first step to its last Parquet "
    "file. Both made the same {tiles:,} tiles of the same {events:,} events. Lanes of the stream: {lanes}."
)


@dataclass(frozen=True)
class Drained:
    """The start of a backlog's processing, the time of its last tile, and the content of the tiles."""

    gate_seconds: float
    seconds: float
    tiles: int
    events: int
    lanes: Mapping[str, str]


def measure(run: Run) -> Result:
    """Run the section."""
    count = EVENTS["quick" if run.quick else "full"]
    with EmbeddedBroker(run.folder / "state", port=0) as broker:
        unique = produced(run, broker.address, count)
        drained = _drained(run, broker.address, count)
        batch = _batch(run, broker.address)
    _require_same(unique, drained, batch)
    return result(count, drained, batch)


def produced(run: Run, broker: str, count: int) -> int:
    """Fill the raw topic; returns the number of distinct payments."""
    run.say(f"producing {count:,} payments")
    ensure_topics(broker, [payments], [CardSpend])
    unique = set()
    with Producer(broker, linger_ms=5) as producer:
        for event in backlog(count, time.time_ns() // 1000, RATE):
            producer.send(payments.name, event, key=event["card"])
            unique.add(event["payment_id"])
    return len(unique)


def _drained(run: Run, broker: str, count: int) -> Drained:
    with draining(run, broker, "--lake", "off") as began_at:
        run.say("draining")
        _wait_until_drained(broker, count)
    gate_seconds, made = last_append_s(broker, payments.clean) - began_at, tiles(broker)
    return Drained(gate_seconds, made.last_append_s - began_at, len(made), made.events, lanes(broker))


@contextmanager
def draining(run: Run, broker: str, *flags: str) -> Iterator[float]:
    """Run a stream on the backlog; yields the start time of its gate, in epoch seconds."""
    run.say("starting the stream")
    state, output = run.folder / "stream", run.folder / "stream.out"
    with running(part("stream", broker, state, *flags), output) as stream:
        first_batch = state / "checkpoints" / payments.name / "gate" / "offsets" / "0"

        def began() -> float | None:
            if not stream.is_alive():
                raise BenchFailed(f"The stream ended by itself:\n{output.read_text()[-3000:]}")
            return first_batch.stat().st_mtime if first_batch.exists() else None

        yield wait_for(began, LIMIT_SECONDS, "the gate's first batch")


def part(name: str, broker: str, state: Path, *flags: str) -> list[str]:
    """The command of one part of the app."""
    return [sys.executable, "-m", "headrace", "run", str(APP), name, "--broker", broker, "--state", str(state), *flags]


def _wait_until_drained(broker: str, count: int) -> None:
    """Wait until the gate has processed every record, tiles are in real time, and their changelog no longer grows."""
    offsets = OffsetClient(broker)
    wait_for(lambda: length(offsets, payments.clean) >= count, LIMIT_SECONDS, "the gate", 0.5)
    # A micro-batch may write nothing for longer than any rest.
    wait_for(lambda: "real-time" in lanes(broker).get(TILES, ""), LIMIT_SECONDS, "tiles in real time", 1.0)
    seen, since = 0, time.monotonic()

    def is_quiet() -> bool:
        nonlocal seen, since
        now = length(offsets, CardSpend.topic)
        if now != seen:
            seen, since = now, time.monotonic()
        return seen > 0 and time.monotonic() - since > QUIET_SECONDS

    wait_for(is_quiet, LIMIT_SECONDS, "the tiles", 0.5)


def _batch(run: Run, broker: str) -> Batch:
    run.say("the same tiles by a plain Spark batch, twice")
    output = run.folder / "batch.out"
    with running([sys.executable, "-m", "bench.batch", broker, str(run.folder / "batch")], output) as child:
        wait_for(lambda: not child.is_alive(), LIMIT_SECONDS, "the batch", 0.2)
    return _batch_said(output)


def _batch_said(output: Path) -> Batch:
    said = output.read_text()
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines:
        raise BenchFailed(f"The batch ended without a result:\n{said[-3000:]}")
    return Batch(**json.loads(lines[-1]))


def _require_same(unique: int, drained: Drained, batch: Batch) -> None:
    if (drained.tiles, drained.events) != (batch.tiles, batch.events) or drained.events != unique:
        raise BenchFailed(f"{unique} different payments, but the stream made {drained} and the batch {batch}.")


def result(count: int, drained: Drained, batch: Batch) -> Result:
    """The section's table and figures."""
    seconds = {
        "stream, gate alone": drained.gate_seconds,
        "stream, gate and tiles": drained.seconds,
        "batch, new JVM": batch.first_seconds,
        "batch, again": batch.second_seconds,
    }
    rows = [
        [name, f"{took:.1f} s", f"{count / took:,.0f}", f"{batch.first_seconds / took:.2f}"]
        for name, took in seconds.items()
    ]
    return Result(
        section="drain",
        table=Table([f"{count:,} events", "time", "events/s", "of the batch"], rows),
        figures={"count": count, "stream": asdict(drained), "batch": asdict(batch)},
        notes=[NOTE.format(tiles=drained.tiles, events=drained.events, lanes=lanes_text(drained.lanes))],
    )


def lanes_text(lanes: Mapping[str, str]) -> str:
    """Each query with its lanes.

    >>> lanes_text({"payments.gate": "draining, then real-time"})
    'payments.gate draining, then real-time'
    """
    return "; ".join(f"{query} {of_query}" for query, of_query in sorted(lanes.items()))
