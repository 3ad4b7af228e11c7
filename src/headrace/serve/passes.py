"""Passes: what a server signs for a while, so that any of its workers knows it again and none has to remember it.

pass = bearer "." until "." HMAC-SHA256(key of its purpose, bearer "." until)

The key comes from a secret in the state folder that all processes of an app share, and that never leaves this machine:
whoever listens where our server should be hears a pass that is soon over.
"""

import hmac
import secrets
from enum import StrEnum
from pathlib import Path
from typing import Self

from headrace.serve.private import read_or_make

SECRET_BYTES = 32


class Purpose(StrEnum):
    """What a pass is for; one for another purpose is none."""

    SESSION = "session"  # of a browser: the bearer is the token it came in with
    OWN = "own"  # of Headrace's own parts


class Passes:
    """Signs passes and knows them again."""

    def __init__(self, secret: bytes) -> None:
        self._keys = {purpose: hmac.digest(secret, purpose.encode(), "sha256") for purpose in Purpose}

    @classmethod
    def of(cls, state: Path) -> Self:
        """Those of a state folder; its secret is made if there is none."""
        return cls(read_or_make(state / "own.secret", secrets.token_bytes(SECRET_BYTES)))

    def signed(self, purpose: Purpose, bearer: str, until: int) -> str:
        """A pass that is good until an epoch second."""
        said = f"{bearer}.{until}"
        return f"{said}.{self._mark(purpose, said)}"

    def bearer(self, purpose: Purpose, shown: str, now: float) -> str | None:
        """Who bears a pass, if it was signed here for this purpose and is still good."""
        said, _, mark = shown.rpartition(".")
        if not shown.isascii() or not hmac.compare_digest(mark, self._mark(purpose, said)):
            return None
        bearer, _, until = said.rpartition(".")
        return bearer if int(until) > now else None

    def _mark(self, purpose: Purpose, said: str) -> str:
        return hmac.digest(self._keys[purpose], said.encode(), "sha256").hex()
