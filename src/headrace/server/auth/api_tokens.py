"""API tokens: created and shown once; the state folder has only a hash of each.

`hr_` and 32 random bytes ──sha256──▶ STATE/tokens.json {"tokens": [{"name", "scopes", "sha256", "made"}]}, mode 0600

There is nothing to guess in 256 random bits, so a plain hash is enough: no salt, no work factor.
"""

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.server.auth.scopes import Scope
from headrace.storage.private_files import require_private_file, write_private_file
from headrace.storage.private_folder import make_private_folder

TOKEN_PREFIX = "hr_"  # noqa: S105 - the prefix of every token
SECRET_BYTES = 32
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TokenFileError(HeadraceError):
    """The token file cannot be read."""


class TokenNameError(HeadraceError):
    """A token name that is invalid, taken or unknown."""


@dataclass(frozen=True)
class ApiToken:
    """What is stored of a token."""

    name: str
    scopes: frozenset[Scope]
    digest: bytes
    created_at: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "scopes": sorted(self.scopes), "sha256": self.digest.hex(), "made": self.created_at}


def tokens_file(state: Path) -> Path:
    """The token file; once it exists, every request needs a token."""
    return state / "tokens.json"


def hash_token(token: bytes) -> bytes:
    """The digest that is stored and looked up instead of a token."""
    return sha256(token).digest()


def read_tokens(state: Path) -> tuple[ApiToken, ...]:
    """The tokens of a state folder; empty where there is no file."""
    file = tokens_file(state)
    if not file.exists():
        return ()
    require_private_file(file)
    try:
        return tuple(map(_token_from_json, json.loads(file.read_bytes())["tokens"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise TokenFileError(f"{file} cannot be read: {problem}. Restore it, or create new tokens.") from problem


def create_token(state: Path, name: str, scopes: frozenset[Scope]) -> str:
    """Create a token and return it; it is shown only this once."""
    if not _NAME_PATTERN.fullmatch(name):
        raise TokenNameError(f"A token cannot be named {name!r}. Write letters, digits, dots and dashes, 64 at most.")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    created_at = datetime.now(UTC).isoformat(timespec="seconds")
    with _lock_tokens(state) as tokens:
        if any(token.name == name for token in tokens):
            raise TokenNameError(f"There is a token {name!r} already. Revoke it first: headrace token revoke {name}.")
        _write_tokens(state, [*tokens, ApiToken(name, scopes, hash_token(secret.encode()), created_at)])
    return secret


def revoke_token(state: Path, name: str) -> tuple[ApiToken, ...]:
    """Revoke a token and return those that are left."""
    with _lock_tokens(state) as tokens:
        remaining = tuple(token for token in tokens if token.name != name)
        if len(remaining) == len(tokens):
            names = ", ".join(token.name for token in tokens) or "none"
            raise TokenNameError(f"There is no token {name!r} in {tokens_file(state)}. There is {names}.")
        _write_tokens(state, remaining)
    return remaining


@contextmanager
def _lock_tokens(state: Path) -> Iterator[tuple[ApiToken, ...]]:
    """The tokens, under an exclusive lock."""
    make_private_folder(state)
    folder_fd = os.open(state, os.O_RDONLY)
    try:
        fcntl.flock(folder_fd, fcntl.LOCK_EX)
        yield read_tokens(state)
    finally:
        os.close(folder_fd)


def _write_tokens(state: Path, tokens: Sequence[ApiToken]) -> None:
    content = {"tokens": [token.to_json() for token in tokens]}
    write_private_file(tokens_file(state), json.dumps(content, indent=1).encode())


def _token_from_json(content: dict[str, Any]) -> ApiToken:
    digest = bytes.fromhex(content["sha256"])
    if len(digest) != sha256().digest_size:
        raise ValueError(f"{content['name']!r} has no sha256")
    return ApiToken(str(content["name"]), frozenset(map(Scope, content["scopes"])), digest, str(content["made"]))
