"""Runs streams through Spark's gate as a batch, so that no test waits for a running one."""

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import headrace as hr
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics
from headrace.lake.ingestion.ingest_step import TableIngester, new_write_session
from headrace.lake.ingestion.record_rows import read_records
from headrace.lake.ingestion.table_mapping import TableMapping
from headrace.lake.lake_table import LakeTable
from headrace.spark.gate.gate import apply_gate
from headrace.tiles.events import record_classification
from tests.waiting import patiently

SCHEMA = "id string, card string, amount double, n bigint, small int, tiny tinyint, ok boolean, at timestamp"
YEARS = hr.Late("2m", then="update", until="3000d")
_numbers = count()

Place = tuple[int, int]


def new_stream(broker: str, **changes: Any) -> hr.Stream:
    """A stream no other test has, and its topics."""
    settings = {"schema": SCHEMA, "id": "id", "key": "card", "time": "at", "late": YEARS, "check": "amount >= 0"}
    stream = hr.Stream(f"lake{next(_numbers)}", **{**settings, **changes})
    ensure_topics(broker, [stream])
    return stream


def send(broker: str, stream: hr.Stream, values: Sequence[bytes | Mapping[str, Any] | None]) -> None:
    """Produce raw records, to both partitions in turn."""
    with Producer(broker) as producer:
        for number, value in enumerate(values):
            producer.send(stream.name, value, key=f"k{number}", partition=number % 2)


def pass_gate(spark: SparkSession, broker: str, stream: hr.Stream, start: int = 0) -> None:
    """Bring the raw records from an offset on through the gate; called again, it writes them again, as a crash does."""
    start_at = json.dumps({stream.name: {"0": start, "1": start}})
    raw = read_records(spark, broker, subscribe=stream.name, startingOffsets=start_at)
    one_by_one = apply_gate(raw, stream)
    one_by_one.write.format("kafka").option("kafka.bootstrap.servers", broker).option(
        "kafka.max.request.size", str(16 << 20)
    ).save()


def land(spark: SparkSession, broker: str, lake: Path, landing: TableMapping, most: int = 1000) -> LakeTable:
    """Land all that is there, as a new process does."""
    table = LakeTable(lake, landing)
    table.prepare()
    lander = TableIngester(new_write_session(spark), broker, table, most)
    while lander.ingest().ingested:
        pass
    return table


def read_topic(broker: str, topic: str) -> list[ConsumerRecord]:
    """Every record of a topic."""
    found: list[ConsumerRecord] = []
    with TailingConsumer(broker, [topic], found.extend) as follower:
        assert follower.wait_until_caught_up(patiently(30))
    return found


def judged(
    broker: str, stream: hr.Stream
) -> dict[Place, tuple[ConsumerRecord, record_classification.ClassificationResult]]:
    """The plain Python gate's result for each raw record."""
    raw = read_topic(broker, stream.name)
    verdicts = record_classification.classify_records(
        stream, [record_classification.RawRecord(record.value, record.appended_us) for record in raw]
    )
    return {
        (record.partition, record.offset): both
        for record, both in zip(raw, zip(raw, verdicts, strict=True), strict=True)
    }
