"""Section scrape: the response time of `/metrics` for an app with 200 topics, while its server monitors all of them."""

import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from bench.parts import running
from bench.percentiles import Spread
from bench.results import Goal, Result, Table
from bench.section import Run
from bench.waiting import wait_for
from headrace.declare.app import App, load_app
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.topics import ensure_topics

STREAMS, RECORDS = 34, 50
SCRAPES, QUICK_SCRAPES = 200, 20
GOAL_MS = 50.0
TEXT = """
s{n} = hr.Stream("s{n}", schema="id string, card string, at timestamp", id="id", key="card", time="at")


@hr.features(s{n}, by="card")
class V{n}:
    events = hr.count(windows="1h")
"""
NOTE = (
    "An app of {streams} streams and as many views has {topics} topics with {partitions} partitions. The server is a "
    "process of its own, asked by one client, one scrape after the other, while it asks the broker four times a second "
    "how far everything is behind."
)


@dataclass(frozen=True)
class Scraped:
    """The numbers of topics and partitions, the size of a response, and the response times in milliseconds."""

    topics: int
    partitions: int
    samples: int
    ms: Spread


def measure(run: Run) -> Result:
    """Run the section."""
    file = run.folder / "many.py"
    file.write_text("import headrace as hr\n" + "".join(TEXT.format(n=n) for n in range(STREAMS)))
    with EmbeddedBroker(run.folder / "state", port=0) as broker:
        run.say(f"{STREAMS} streams")
        app = load_app(str(file))
        fill(broker.address, app)
        partitions = OffsetClient(broker.address).list_partitions(topics_of(app))
        port = free_port()
        command = [sys.executable, "-m", "headrace", "run", str(file), "serve", "--broker", broker.address]
        flags = ["--http", f"{HOST}:{port}", "--state", str(run.folder / "state")]
        with running([*command, *flags], run.folder / "serve.out"):
            wait_for(
                lambda: is_listening(HOST, port) and count_lags(port) >= 2 * STREAMS,
                120,
                "the lag of every stream",
                0.5,
            )
            took = [scrape(port) for _ in range(QUICK_SCRAPES if run.quick else SCRAPES)]
    topics = {partition.topic for partition in partitions}
    found = Scraped(len(topics), len(partitions), took[-1][1], Spread.of([ms for ms, _ in took]))
    return result(found)


def topics_of(app: App) -> list[str]:
    """Every topic of an app."""
    fates = [name for one in app.streams for name in (one.name, one.clean, one.late_topic, one.dead)]
    return [*fates, *(name for view in app.views for name in (view.topic, view.served))]


def fill(broker: str, app: App) -> None:
    """Write some records of each stream, half of them processed by the gate, and the reports of its queries."""
    ensure_topics(broker, app.streams, app.views)
    ensure_progress_topic(broker)
    with Producer(broker, linger_ms=5) as producer:
        for stream in app.streams:
            for offset in range(RECORDS):
                producer.send(stream.name, b"{}", partition=0)
                headers = [("headrace.offset", str(offset)), ("headrace.arrival", str(time.time_ns() // 1000))]
                if offset % 2:
                    producer.send(stream.clean, b"{}", partition=0, headers=headers)
            views, now_us = tuple(view.name for view in app.views_of(stream)), time.time_ns() // 1000
            for query, of in ((f"{stream.name}.gate", ()), (f"{stream.name}.tiles-0", views)):
                publish_progress(producer, QueryProgress(query, stream.name, of, "real-time", True, now_us))


def count_lags(port: int) -> int:
    """The number of queries whose lag /metrics has."""
    return len({name for line in lines(port) for name in re.findall(r'^headrace_query_lag\{.*query="([^"]+)"', line)})


def lines(port: int) -> Iterator[str]:
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=30) as answer:  # our own
        yield from answer.read().decode().splitlines()


def scrape(port: int) -> tuple[float, int]:
    """The response time in milliseconds, and the number of samples."""
    began = time.perf_counter()
    said = [*lines(port)]
    return 1000 * (time.perf_counter() - began), sum(not line.startswith("#") for line in said)


def result(found: Scraped) -> Result:
    """The section's table, goal and figures."""
    ms = found.ms
    cells = [str(found.topics), str(found.partitions), str(found.samples)]
    return Result(
        section="scrape",
        table=Table(
            ["", "topics", "partitions", "samples", "P50", "P99"],
            [["`/metrics`", *cells, f"{ms.p50:.1f} ms", f"{ms.p99:.1f} ms"]],
        ),
        figures=asdict(found),
        goals=[Goal(f"P99 of a scrape under {GOAL_MS:g} ms with 200 topics", f"{ms.p99:.1f} ms", ms.p99 < GOAL_MS)],
        notes=[NOTE.format(streams=STREAMS, topics=found.topics, partitions=found.partitions)],
    )
