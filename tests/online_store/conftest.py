"""The servers of online stores: shared by all tests, or one that a test may kill."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from headrace.online_store.cassandra import cassandra_session
from tests.cassandra_server import OwnCassandra
from tests.servers import OwnRedis
from tests.waiting import patiently

KINDS = ["redis", pytest.param("cassandra", marks=pytest.mark.faults)]  # a server that takes its time
OWN = {"redis": OwnRedis, "cassandra": OwnCassandra}


class OwnServer(Protocol):
    """A server without memory: started again, it is empty."""

    url: str

    def start(self) -> None: ...

    def stop(self) -> None: ...


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest) -> str:
    """The address of a store of each kind; each test uses its own views."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=KINDS)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnServer]:
    """A server of each kind that a test may stop."""
    server: OwnServer = OWN[request.param](tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def patient_cassandra(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is right is tested here, not how soon: a busy machine may need more than a reader waits for."""
    monkeypatch.setattr(cassandra_session, "READ_SECONDS", patiently(cassandra_session.READ_SECONDS))
    monkeypatch.setattr(cassandra_session, "WRITE_SECONDS", patiently(cassandra_session.WRITE_SECONDS))
