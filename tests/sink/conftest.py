"""Targets of sinks; each is the real one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import OwnRedis


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path, lasting=True)
    server.start()
    yield server
    server.stop()
