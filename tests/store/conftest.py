"""A Redis that a test may kill, and a cluster of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import OwnCluster, OwnRedis


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    servers = OwnCluster(tmp_path_factory.mktemp("cluster"))
    servers.start()
    yield servers
    servers.stop()
