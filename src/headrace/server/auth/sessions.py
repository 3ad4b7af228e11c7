"""Browser sessions: a signed token in a cookie, valid until it expires or the user logs out.

cookie = digest of the token "-" number "." until "." mark      STATE/ended.json {"before": …, "ended": {number: until}}

No process stores the valid sessions; all workers share the list of those that ended before they expired.
"""

import fcntl
import json
import os
import secrets
import time
from pathlib import Path
from typing import NamedTuple

from headrace.errors import HeadraceError
from headrace.server.auth.signed_tokens import TokenPurpose, TokenSigner
from headrace.storage.private_files import require_private_file, write_private_file

SESSION_SECONDS = 12 * 3600
SESSION_ID_BYTES = 8
MAX_ENDED_SESSIONS = 10_000


class SessionFileError(HeadraceError):
    """The file of ended sessions cannot be read."""


class BrowserSession(NamedTuple):
    """The token a session belongs to, its number, and its expiry."""

    token_digest: bytes
    session_id: str
    expires_at: int


class EndedSessions(NamedTuple):
    """Ended sessions by number; every session that began before `before` has ended as well."""

    before: int
    ended: dict[str, int]

    def contains(self, session: BrowserSession) -> bool:
        return session.session_id in self.ended or session.expires_at - SESSION_SECONDS < self.before

    def with_session(self, session: BrowserSession, now: int) -> "EndedSessions":
        """Add one; with too many to store, every current session ends."""
        remaining = {session_id: expires_at for session_id, expires_at in self.ended.items() if expires_at > now}
        if len(remaining) >= MAX_ENDED_SESSIONS:
            return EndedSessions(now + 1, {})
        return EndedSessions(self.before, remaining | {session.session_id: session.expires_at})


class SessionManager:
    """Creates, verifies and ends sessions."""

    def __init__(self, state: Path, token_signer: TokenSigner) -> None:
        self._state, self._file, self._token_signer = state, state / "ended.json", token_signer
        self._loaded_stamp: tuple[int, int] | None = None
        self._ended = EndedSessions(0, {})
        self.reload_if_changed()

    def create(self, token_digest: bytes) -> str:
        """A new session for the token with this digest."""
        expires_at = int(time.time()) + SESSION_SECONDS
        return self._token_signer.sign(
            TokenPurpose.SESSION, f"{token_digest.hex()}-{secrets.token_hex(SESSION_ID_BYTES)}", expires_at
        )

    def verify(self, session_token: str) -> BrowserSession | None:
        """The session of a cookie, if it was created here and has not ended."""
        subject = self._token_signer.verify(TokenPurpose.SESSION, session_token, time.time())
        if subject is None:
            return None
        digest_hex, _, session_id = subject.partition("-")
        session = BrowserSession(bytes.fromhex(digest_hex), session_id, int(session_token.rsplit(".", 2)[1]))
        return None if self._ended.contains(session) else session

    def end(self, session: BrowserSession) -> None:
        """End a session, for all workers."""
        folder_fd = os.open(self._state, os.O_RDONLY)
        try:
            fcntl.flock(folder_fd, fcntl.LOCK_EX)
            self.reload_if_changed()
            ended = self._ended.with_session(session, int(time.time()))
            write_private_file(self._file, json.dumps(ended._asdict()).encode())
        finally:
            os.close(folder_fd)
        self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Load the sessions that other workers ended."""
        try:
            file_stat = self._file.stat()
        except FileNotFoundError:
            return
        stamp = file_stat.st_ino, file_stat.st_mtime_ns
        if stamp != self._loaded_stamp:
            self._ended, self._loaded_stamp = self._read_ended(), stamp

    def _read_ended(self) -> EndedSessions:
        require_private_file(self._file)
        try:
            return EndedSessions(**json.loads(self._file.read_bytes()))
        except (ValueError, TypeError) as problem:
            raise SessionFileError(
                f"{self._file} cannot be read: {problem}. Remove it, and revoke the tokens of users who logged out in "
                f"the last {SESSION_SECONDS // 3600} hours."
            ) from problem
