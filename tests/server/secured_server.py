"""A server of a model with authentication, and its clients."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.embedded_servers.ports import HOST
from headrace.server.auth.access_config import DEFAULT_ACCESS, AccessConfig
from headrace.server.auth.api_tokens import create_token
from headrace.server.auth.request_guard import GuardConfig, RequestGuard
from headrace.server.auth.scopes import GRANTABLE_SCOPES, Scope
from tests.server.prediction_app import fraud, predicting
from tests.server.server_thread import Asking, Said

PORT = 8080  # as far as a guard knows


def guard_of(state: Path, access: AccessConfig = DEFAULT_ACCESS, is_reachable: bool = False) -> RequestGuard:
    return RequestGuard(GuardConfig(state, HOST, PORT, is_reachable), access)


def tokens_of(state: Path) -> dict[Scope, str]:
    """A token for each scope."""
    return {scope: create_token(state, scope, frozenset({scope})) for scope in GRANTABLE_SCOPES}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True)
class Guarded:
    """A server that requires tokens, its guard, and its tokens."""

    ask: Asking
    guard: RequestGuard
    tokens: Mapping[Scope, str]

    def __call__(self, scope: Scope, method: str, path: str, body: Any = None, **headers: str) -> Said:
        return self.ask(method, path, body, bearer(self.tokens[scope]) | headers)

    def login(self) -> str:
        """The session cookie of a browser that logged in with the read token."""
        said = self.ask("POST", "/login", f"token={self.tokens[Scope.READ]}")
        assert (said.status, said.headers["location"]) == (303, "/")
        return said.headers["set-cookie"].partition(";")[0]


@contextmanager
def guarded(folder: Path, access: AccessConfig = DEFAULT_ACCESS, **more: Any) -> Iterator[Guarded]:
    state = folder / "state"
    tokens = tokens_of(state)
    guard = guard_of(state, access)
    with predicting(fraud(folder), guard=guard, **more) as ask:
        yield Guarded(ask, guard, tokens)
