"""Fixtures that all tests share: real servers, one of each for the whole run."""

import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from bench.postgres import OwnPostgres
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import JavaMissing, find_newer_java
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.embedded_servers.schema_registry import EmbeddedSchemaRegistry
from headrace.kafka.schema_registry.registry_client import SchemaRegistryClient, create_registry_client
from headrace.online_store import shared_store
from headrace.spark.session.session import SparkSessionConfig, start_session
from tests.cassandra_server import OwnCassandra
from tests.kafka.secured_broker import Guarded, guarded_broker
from tests.servers import SHORT_LIVED, OwnCluster, own_postgres
from tests.waiting import patiently, wait_until

# The duration of an example depends on the machine; benchmarks measure speed.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")

WHOLE_APPS = {"e2e", "examples", "faults"}


class HeavyOnesApart(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """Distributes tests by file, except heavy ones: whole apps run one at a time, and so do Spark sessions."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _heavy(Path(file)) or file


@cache
def _heavy(file: Path) -> str | None:
    """The heavy resource that a file's tests start: a whole app, a Spark session, or none."""
    text = file.read_text()
    if file.parent.name in WHOLE_APPS or "tests.running" in text or "tests.apps.play" in text:
        return "apps"
    return "spark" if "SparkSession" in text else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> HeavyOnesApart:
    """Called by pytest-xdist, whose own groups need a pytest before 9.2."""
    return HeavyOnesApart(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run heavy tests first, as they take longest, and extend each test's timeout for a busy machine."""
    items.sort(key=lambda item: ("apps", "spark", None).index(_heavy(item.path)))
    for item in items:
        if (limit := item.get_closest_marker("timeout")) is not None:
            item.add_marker(pytest.mark.timeout(patiently(*limit.args)), append=False)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One broker for the whole run; each test uses its own topics."""
    with EmbeddedBroker(tmp_path_factory.mktemp("state"), port=0, jvm_options=SHORT_LIVED) as running:
        yield running


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryClient]:
    """One schema registry for the whole run; each test uses its own subjects."""
    try:
        find_newer_java()
    except JavaMissing as missing:
        pytest.skip(f"no schema registry: {missing}")
    with EmbeddedSchemaRegistry(tmp_path_factory.mktemp("registry"), port=0) as running:
        yield create_registry_client(running.url)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One broker with authentication for the whole run."""
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Redis for the whole run; each test uses its own keys."""
    program = shutil.which("redis-server") or shutil.which("redis-server", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("redis-server is not installed: run `make setup`, or install it")
    folder, port = tmp_path_factory.mktemp("redis"), free_port()
    command = [program, "--bind", HOST, "--port", str(port), "--save", "", "--appendonly", "no"]
    server = ChildProcess(command, folder=folder, output=folder / "redis.log")
    server.start()
    try:
        wait_until(lambda: is_listening(HOST, port), limit_s=20, what="redis-server to answer")
        yield f"redis://{HOST}:{port}/0"
    finally:
        server.stop(grace_s=patiently(10))


@pytest.fixture(scope="session")
def cassandra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCassandra]:
    """One Cassandra for the whole run; each test uses its own views."""
    server = OwnCassandra(tmp_path_factory.mktemp("cassandra"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def cassandra_url(cassandra: OwnCassandra) -> str:
    return cassandra.url


@pytest.fixture(scope="session")
def postgres() -> Iterator[OwnPostgres]:
    """One PostgreSQL for the whole run, which a test may stop and start; each test uses its own tables."""
    with own_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """One Redis Cluster of three servers for the whole run; a test that stops one of them starts it again."""
    servers = OwnCluster(tmp_path_factory.mktemp("cluster"))
    servers.start()
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for the whole run."""
    session = start_session(SparkSessionConfig(None, 2, jar_paths("spark"), tmp_path_factory.mktemp("spark")))
    session.conf.set("spark.sql.shuffle.partitions", 2)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def recorded_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the stores' wall clock: events of tests have past times, so only event time advances a store."""
    monkeypatch.setattr(shared_store, "current_time_us", lambda: 0)
