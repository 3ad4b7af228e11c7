"""Fixtures that the tests of authentication share."""

from collections.abc import Iterator

import pytest

from headrace.server.auth import request_guard as guards
from tests.server.secured_server import Guarded, guarded


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that wants tokens; strangers may guess as often as a test does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "ANONYMOUS_REQUESTS_PER_SECOND", 1e6)
        with guarded(tmp_path_factory.mktemp("guarded")) as server:
            yield server
