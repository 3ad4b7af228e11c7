"""A real PostgreSQL with change data capture."""

from collections.abc import Iterator

import pytest

from bench.postgres import OwnPostgres
from tests.servers import own_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[OwnPostgres]:
    """One PostgreSQL with wal_level=logical for the whole run; each test uses its own tables."""
    with own_postgres(is_captured=True) as server:
        yield server
