"""A database whose changes can be captured; it is the real one."""

from collections.abc import Iterator

import pytest

from bench.errors import Skipped
from bench.postgres import OwnPostgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[OwnPostgres]:
    """One PostgreSQL with wal_level=logical for the whole run; give each test tables of its own."""
    try:
        server = OwnPostgres(is_captured=True)
    except Skipped as why:
        pytest.skip(str(why))
    server.start()
    yield server
    server.remove()
