"""A Redis that a test may kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import OwnRedis


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    server.start()
    yield server
    server.stop()
