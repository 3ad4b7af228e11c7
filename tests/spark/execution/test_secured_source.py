"""Spark reads and writes a secured broker, and shows its credentials nowhere."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.kafka.client.security import SECURITY_FILE_VARIABLE, read_security_file
from headrace.kafka.client.security_properties import jvm_properties, spark_kafka_options
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.lake.ingestion.record_rows import read_records
from headrace.spark.execution.lanes import Lane, QuerySpec, start_query
from headrace.spark.session.session import SparkSessionConfig, _driver_java_options
from tests.kafka.secured_broker import CANARY, Guarded


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    read_security_file.cache_clear()
    yield
    read_security_file.cache_clear()


def copied(spark: SparkSession, broker: str, folder: Path) -> tuple[list[bytes], str]:
    """What a query of ours has copied from one topic to another, and how Spark explains it."""
    name = f"s{uuid.uuid4().hex}"
    stream = hr.Stream(name, schema="id string, at timestamp", id="id", key="id", time="at", partitions=1)
    ensure_topics(broker, [stream])
    with Producer(broker) as producer:
        producer.send(name, b"in", key="k")
    spec = QuerySpec(
        name=f"{name}.copy",
        stream=name,
        views=(),
        broker=broker,
        source_topics=(name,),
        checkpoint=folder / name,
        source_partitions=1,
        shuffle_partitions=1,
        shuffle_count=0,
        linger_ms=0,
        checkpoint_seconds=5,
        build=lambda sources, _lane: sources[0].selectExpr("key", "value", f"'{stream.clean}' AS topic"),
    )
    query = start_query(spark, spec, Lane.DRAINING)
    query.awaitTermination()
    explained = query._jsq.explainInternal(True) + repr(query.lastProgress)  # type: ignore[attr-defined]
    read = read_records(spark, broker, subscribe=stream.clean)
    explained += read._jdf.queryExecution().toString()
    return [bytes(row.value) for row in read.collect()], explained


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_by_password(
    spark: SparkSession, guarded: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mechanism: str
) -> None:
    monkeypatch.setenv(SECURITY_FILE_VARIABLE, str(guarded.by_password(mechanism)))
    found, explained = copied(spark, guarded.address, tmp_path)
    assert found == [b"in"]
    assert CANARY.split()[0] not in explained
    require_none(tmp_path, CANARY.split()[0])


def test_by_token(spark: SparkSession, guarded: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(SECURITY_FILE_VARIABLE, str(guarded.by_token()))
    place = SparkSessionConfig(None, 1, [], tmp_path)
    for name, value in jvm_properties().items():
        assert f"-D{name}={value}" in _driver_java_options(place)
        spark._jvm.java.lang.System.setProperty(name, value)  # type: ignore[union-attr]  # this session is already there
    found, explained = copied(spark, guarded.address, tmp_path / "checkpoints")
    assert found == [b"in"]
    assert CANARY.split()[0] not in explained


def test_by_certificate(spark: SparkSession, guarded: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate, key = guarded.authority.sign("spark")
    words = {"ca": "trusted.pem", "certificate": certificate.name, "key": key.name}
    monkeypatch.setenv(SECURITY_FILE_VARIABLE, str(guarded.security("spark", guarded.mutual, **words)))
    found, explained = copied(spark, guarded.mutual, tmp_path)
    assert found == [b"in"]
    secret = key.read_text().splitlines()[1]
    assert secret in spark_kafka_options(guarded.mutual)["kafka.ssl.keystore.key"]
    assert secret not in explained
    require_none(tmp_path, secret)


def require_none(folder: Path, secret: str) -> None:
    """No file of a checkpoint has the secret."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if secret.encode() in file.read_bytes()]
