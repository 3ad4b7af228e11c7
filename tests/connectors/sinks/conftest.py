"""The real servers that sinks write to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clickhouse import OwnClickHouse
from tests.servers import OwnRedis


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path, lasting=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnClickHouse]:
    """One ClickHouse for the whole run, which a test may stop and start; each test uses its own tables."""
    server = OwnClickHouse(tmp_path_factory.mktemp("clickhouse"))
    server.start()
    yield server
    server.stop()
