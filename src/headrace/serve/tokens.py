"""Tokens: made once and shown once; what is kept of each is a hash, in a file of the state folder.

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
from headrace.private_folder import make_private_folder
from headrace.serve.private import require_private, write_private
from headrace.serve.scopes import Scope

PREFIX = "hr_"
SECRET_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class BadTokens(HeadraceError):
    """The file of tokens cannot be read."""


class BadTokenName(HeadraceError):
    """A token that cannot be named so, or that there is not."""


@dataclass(frozen=True)
class Token:
    """What is kept of a token."""

    name: str
    scopes: frozenset[Scope]
    digest: bytes
    made: str

    def written(self) -> dict[str, Any]:
        return {"name": self.name, "scopes": sorted(self.scopes), "sha256": self.digest.hex(), "made": self.made}


def tokens_file(state: Path) -> Path:
    """Where tokens are kept; once it is there, nobody is let in without one."""
    return state / "tokens.json"


def digest_of(token: bytes) -> bytes:
    """What is kept and looked up instead of a token."""
    return sha256(token).digest()


def read_tokens(state: Path) -> tuple[Token, ...]:
    """The tokens of a state folder; none where there is no file."""
    file = tokens_file(state)
    if not file.exists():
        return ()
    require_private(file)
    try:
        return tuple(map(_read, json.loads(file.read_bytes())["tokens"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise BadTokens(f"{file} cannot be read: {problem}. Put back what it was, or make tokens anew.") from problem


def create_token(state: Path, name: str, scopes: frozenset[Scope]) -> str:
    """A new token, which is told this once."""
    if not _NAME.fullmatch(name):
        raise BadTokenName(f"A token cannot be named {name!r}. Write letters, digits, dots and dashes, 64 at most.")
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    with _changing(state) as tokens:
        if any(token.name == name for token in tokens):
            raise BadTokenName(f"There is a token {name!r} already. Revoke it first: headrace token revoke {name}.")
        _write(state, [*tokens, Token(name, scopes, digest_of(secret.encode()), made)])
    return secret


def revoke_token(state: Path, name: str) -> tuple[Token, ...]:
    """Forget a token; those that are left."""
    with _changing(state) as tokens:
        left = tuple(token for token in tokens if token.name != name)
        if len(left) == len(tokens):
            names = ", ".join(token.name for token in tokens) or "none"
            raise BadTokenName(f"There is no token {name!r} in {tokens_file(state)}. There is {names}.")
        _write(state, left)
    return left


@contextmanager
def _changing(state: Path) -> Iterator[tuple[Token, ...]]:
    """The tokens, while nobody else changes them."""
    make_private_folder(state)
    folder = os.open(state, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield read_tokens(state)
    finally:
        os.close(folder)


def _write(state: Path, tokens: Sequence[Token]) -> None:
    content = {"tokens": [token.written() for token in tokens]}
    write_private(tokens_file(state), json.dumps(content, indent=1).encode())


def _read(written: dict[str, Any]) -> Token:
    digest = bytes.fromhex(written["sha256"])
    if len(digest) != sha256().digest_size:
        raise ValueError(f"{written['name']!r} has no sha256")
    return Token(str(written["name"]), frozenset(map(Scope, written["scopes"])), digest, str(written["made"]))
