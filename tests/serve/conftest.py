"""What the tests of who may ask have in common."""

from collections.abc import Iterator

import pytest

from headrace.serve import guard as guards
from tests.serve.guarding import Guarded, guarded


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that wants tokens; strangers may guess as often as a test does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "STRANGERS_A_SECOND", 1e6)
        with guarded(tmp_path_factory.mktemp("guarded")) as server:
            yield server
