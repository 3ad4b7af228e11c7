"""A NATS and a Pulsar server that all tests of bridges share."""

from collections.abc import Iterator

import pytest

from tests.connectors.sources.nats_server import OwnNats
from tests.connectors.sources.pulsar_server import OwnPulsar


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNats]:
    """One NATS for the whole run; each test uses its own streams."""
    server = OwnNats(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pulsar_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPulsar]:
    """One Pulsar for the whole run; each test uses its own topics."""
    server = OwnPulsar(tmp_path_factory.mktemp("pulsar"))
    server.start()
    yield server
    server.stop()
