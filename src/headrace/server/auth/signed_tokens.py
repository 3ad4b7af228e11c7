"""Signed tokens with an expiry: any worker verifies them without storing them.

token = subject "." until "." HMAC-SHA256(key of its purpose, subject "." until)

The key comes from a secret in the state folder that all processes of an app share, and that never leaves this machine:
a program that listens in place of our server sees only a token that soon expires.
"""

import hmac
import secrets
from enum import StrEnum
from pathlib import Path
from typing import Self

from headrace.storage.private_files import read_or_create

SECRET_BYTES = 32


class TokenPurpose(StrEnum):
    """The purpose of a signed token; it is invalid for any other."""

    SESSION = "session"  # of a browser: the subject has the digest of its API token
    INTERNAL = "own"  # of Headrace's own parts


class TokenSigner:
    """Signs and verifies tokens."""

    def __init__(self, secret: bytes) -> None:
        self._keys_by_purpose = {purpose: hmac.digest(secret, purpose.encode(), "sha256") for purpose in TokenPurpose}

    @classmethod
    def from_state_folder(cls, state: Path) -> Self:
        """The signer of a state folder; creates its secret if there is none."""
        return cls(read_or_create(state / "own.secret", secrets.token_bytes(SECRET_BYTES)))

    def sign(self, purpose: TokenPurpose, subject: str, expires_at: int) -> str:
        """A token that is valid until an epoch second."""
        payload = f"{subject}.{expires_at}"
        return f"{payload}.{self._signature(purpose, payload)}"

    def verify(self, purpose: TokenPurpose, token: str, now: float) -> str | None:
        """The subject of a token, if it was signed here for this purpose and has not expired."""
        payload, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature, self._signature(purpose, payload)):
            return None
        subject, _, expires_at = payload.rpartition(".")
        return subject if int(expires_at) > now else None

    def _signature(self, purpose: TokenPurpose, payload: str) -> str:
        return hmac.digest(self._keys_by_purpose[purpose], payload.encode(), "sha256").hex()
