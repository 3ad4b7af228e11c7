"""Targets of sinks; each is the real one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import Skipped
from bench.postgres import OwnPostgres
from tests.servers import OwnRedis


@pytest.fixture(scope="session")
def postgres() -> Iterator[OwnPostgres]:
    """One PostgreSQL for the whole run, which a test may stop and start; give each test tables of its own."""
    try:
        server = OwnPostgres()
    except Skipped as why:
        pytest.skip(str(why))
    server.start()
    yield server
    server.remove()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path, lasting=True)
    server.start()
    yield server
    server.stop()
