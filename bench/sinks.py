"""Section sinks: a backlog of clean events written to each target, with each supported delivery guarantee.

payments.clean full ▸ sink gets its partitions ├──────────── last row written ┤
"""

import os
import shutil
import ssl
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.app import payments
from bench.errors import Skipped
from bench.parts import NO_REDIS, own_redis, redis_program
from bench.payments import backlog
from bench.postgres import own_postgres
from bench.results import Result, Table
from bench.section import Run
from bench.waiting import wait_for
from headrace.connectors.sinks.sink_part import SinkWorker, create_sink_writer
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.target import DELIVERIES, Delivery, Target
from headrace.declare.sinks.targets import Delta, Kafka, Postgres, Redis, Webhook
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.headers import position_headers
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.telemetry.webhooks.allowed_addresses import parse_networks

EVENTS, ROUNDS = {"full": 200_000, "quick": 10_000}, {"full": 3, "quick": 1}
LIMIT_SECONDS = 600.0
COPIED = "copied"
NOTE = (
    "{events:,} clean events, all there before, from when a sink is given its partitions to the last row written, one "
    "sink at a time; the median of {rounds}. The last column is the rate beside that of at_most_once to the same "
    "target: what a stronger promise costs. Reading events is in all of them. PostgreSQL writes to its disk at each "
    "commit, Redis keeps nothing on disk, Delta commits once a second, the webhook answers at once."
)


@dataclass(frozen=True)
class Brought:
    """The rows per second of a target, by delivery guarantee."""

    target: str
    rates: Mapping[Delivery, float]


def measure(run: Run) -> Result:
    """Run the section."""
    size = "quick" if run.quick else "full"
    count, rounds = EVENTS[size], ROUNDS[size]
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(run.folder / "state", port=0)).address
        place, targets, left_out = _targets(run, broker, stack)
        run.say(f"producing {count:,} payments")
        _fill(broker, count)
        found = [_brought(run, kind, made, place, count, rounds) for kind, made in targets.items()]
    return result(count, rounds, found, left_out)


def _targets(run: Run, broker: str, stack: ExitStack) -> tuple[SinkConfig, dict[str, Any], list[str]]:
    """The factories of the available targets, and the unavailable ones."""
    left_out: list[str] = []
    targets: dict[str, Any] = {}
    try:
        os.environ["BENCH_PG_URL"] = stack.enter_context(own_postgres())
        targets["postgres"] = lambda name: Postgres("env:BENCH_PG_URL", table=name)
    except Skipped as why:
        left_out.append(f"Left out: {why}.")
    if redis_program() is None:
        left_out.append(NO_REDIS)
    else:
        os.environ["BENCH_REDIS_URL"] = stack.enter_context(own_redis(run.folder))
        targets["redis"] = lambda name: Redis("env:BENCH_REDIS_URL", prefix=name)
    targets["delta"] = lambda name: Delta(str(run.folder / name))
    targets["kafka"] = lambda _name: Kafka(COPIED)
    certificate = _certificate(run.folder)
    if certificate is None:
        left_out.append("The webhook was left out: openssl is not installed.")
    else:
        os.environ["BENCH_HOOK_URL"] = stack.enter_context(_listening(certificate))
        targets["webhook"] = lambda _name: Webhook("env:BENCH_HOOK_URL")
    return SinkConfig(broker, parse_networks([HOST]), certificate), targets, left_out


def _fill(broker: str, count: int) -> None:
    """Fill the clean topic with the records of a gate."""
    ensure_topics(broker, [payments])
    ensure_compacted_topic(broker, COPIED)
    offsets = [0] * payments.partitions
    with Producer(broker, linger_ms=5) as producer:
        for number, event in enumerate(backlog(count, time.time_ns() // 1000, 5_000)):
            partition = number % payments.partitions
            headers = position_headers(offsets[partition], time.time_ns() // 1000)
            producer.send(payments.clean, event, key=event["card"], partition=partition, headers=headers)
            offsets[partition] += 1


def _brought(run: Run, kind: str, made: Any, place: SinkConfig, count: int, rounds: int) -> Brought:
    honoured = [delivery for delivery in DELIVERIES if delivery in made("x").delivery_guarantees]
    rates: dict[Delivery, list[float]] = {delivery: [] for delivery in honoured}
    for number in range(rounds):
        for delivery in honoured:
            name = f"{kind}_{delivery}_{number}"
            run.say(f"{kind}, {delivery}")
            rates[delivery].append(count / _seconds(name, made(name), delivery, place, count))
    return Brought(kind, {delivery: statistics.median(found) for delivery, found in rates.items()})


def _seconds(name: str, target: Target, delivery: Delivery, place: SinkConfig, count: int) -> float:
    """The time from a sink's start offsets to its last row."""
    sink = Sink(name, of=payments, to=target, delivery=delivery)
    running, began = SinkWorker(sink, create_sink_writer(sink, place), place.broker), list[float]()
    begin = running.processor.on_partitions_assigned

    def noted(committed: Any) -> Any:
        began.append(time.monotonic())
        return begin(committed)

    running.processor.on_partitions_assigned = noted  # type: ignore[method-assign]
    running.start()
    try:
        wait_for(
            lambda: running.processor.fate_counts["written"] >= count, LIMIT_SECONDS, f"{name} to be written", 0.002
        )
        return time.monotonic() - began[0]
    finally:
        running.stop()


def _certificate(folder: Path) -> Path | None:
    program, file, signed = shutil.which("openssl"), folder / "hook.pem", folder / "signed.pem"
    if program is None:
        return None
    how = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=bench", "-addext", f"subjectAltName=IP:{HOST}", "-keyout", str(file), "-out", str(signed)]
    subprocess.run([program, *how, *names], check=True, capture_output=True)
    file.write_text(file.read_text() + signed.read_text())
    return file


class _Taking(BaseHTTPRequestHandler):
    """Accepts every request at once."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_words: Any) -> None:
        """Log nothing."""


@contextmanager
def _listening(certificate: Path) -> Iterator[str]:
    server = ThreadingHTTPServer((HOST, 0), _Taking)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://{HOST}:{server.server_address[1]}/rows"
    finally:
        server.shutdown()
        server.server_close()


def result(count: int, rounds: int, found: Sequence[Brought], left_out: Sequence[str]) -> Result:
    """The section's table and figures."""
    rows = [
        [f"{one.target}, {delivery}", f"{rate:,.0f}", f"{rate / one.rates['at_most_once']:.2f}"]
        for one in found
        for delivery, rate in one.rates.items()
    ]
    return Result(
        section="sinks",
        table=Table([f"{count:,} events", "rows/s", "of at_most_once"], rows),
        figures={"count": count, "rates": {one.target: dict(one.rates) for one in found}},
        notes=[NOTE.format(events=count, rounds=rounds), *left_out],
    )
