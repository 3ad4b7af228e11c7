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

from headrace.storage.private_files import read_or_create

SECRET_BYTES = 32


class TokenPurpose(StrEnum):
    """What a pass is for; one for another purpose is none."""

    SESSION = "session"  # of a browser: the bearer is the token it came in with
    INTERNAL = "own"  # of Headrace's own parts


class TokenSigner:
    """Signs passes and knows them again."""

    def __init__(self, secret: bytes) -> None:
        self._keys_by_purpose = {purpose: hmac.digest(secret, purpose.encode(), "sha256") for purpose in TokenPurpose}

    @classmethod
    def from_state_folder(cls, state: Path) -> Self:
        """Those of a state folder; its secret is made if there is none."""
        return cls(read_or_create(state / "own.secret", secrets.token_bytes(SECRET_BYTES)))

    def sign(self, purpose: TokenPurpose, subject: str, expires_at: int) -> str:
        """A pass that is good until an epoch second."""
        payload = f"{subject}.{expires_at}"
        return f"{payload}.{self._signature(purpose, payload)}"

    def verify(self, purpose: TokenPurpose, token: str, now: float) -> str | None:
        """Who bears a pass, if it was signed here for this purpose and is still good."""
        payload, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature, self._signature(purpose, payload)):
            return None
        subject, _, expires_at = payload.rpartition(".")
        return subject if int(expires_at) > now else None

    def _signature(self, purpose: TokenPurpose, payload: str) -> str:
        return hmac.digest(self._keys_by_purpose[purpose], payload.encode(), "sha256").hex()
