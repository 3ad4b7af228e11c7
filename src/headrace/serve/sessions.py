"""Sessions of browsers: a pass in a cookie, good for a while, and over before that for whoever logs out.

cookie = digest of the token "-" number "." until "." mark      STATE/ended.json {"before": …, "ended": {number: until}}

Nobody remembers the sessions there are, only those that ended before their time, until that has come; all workers do.
"""

import fcntl
import json
import os
import secrets
import time
from pathlib import Path
from typing import NamedTuple

from headrace.errors import HeadraceError
from headrace.serve.passes import Passes, Purpose
from headrace.serve.private import require_private, write_private

SESSION_SECONDS = 12 * 3600
NUMBER_BYTES = 8
MOST_ENDED = 10_000


class BadSessions(HeadraceError):
    """The file of sessions that have ended cannot be read."""


class Session(NamedTuple):
    """Whose it is, which one, and until when it is good."""

    digest: bytes
    number: str
    until: int


class Ended(NamedTuple):
    """Sessions that are over before their time, by number; those that began before a second are over, all of them."""

    before: int
    ended: dict[str, int]

    def has(self, session: Session) -> bool:
        return session.number in self.ended or session.until - SESSION_SECONDS < self.before

    def and_one(self, session: Session, now: int) -> "Ended":
        """With one more; where there are too many to remember, all that there are now have ended."""
        left = {number: until for number, until in self.ended.items() if until > now}
        if len(left) >= MOST_ENDED:
            return Ended(now + 1, {})
        return Ended(self.before, left | {session.number: session.until})


class Sessions:
    """Begins sessions, knows them again, and ends them."""

    def __init__(self, state: Path, passes: Passes) -> None:
        self._state, self._file, self._passes = state, state / "ended.json", passes
        self._stamp: tuple[int, int] | None = None
        self._ended = Ended(0, {})
        self.look()

    def begun(self, digest: bytes) -> str:
        """A new session of whoever has a token with this digest."""
        until = int(time.time()) + SESSION_SECONDS
        return self._passes.signed(Purpose.SESSION, f"{digest.hex()}-{secrets.token_hex(NUMBER_BYTES)}", until)

    def known(self, shown: str) -> Session | None:
        """The session that is shown, if it was begun here and is not over."""
        bearer = self._passes.bearer(Purpose.SESSION, shown, time.time())
        if bearer is None:
            return None
        digest, _, number = bearer.partition("-")
        session = Session(bytes.fromhex(digest), number, int(shown.rsplit(".", 2)[1]))
        return None if self._ended.has(session) else session

    def end(self, session: Session) -> None:
        """End one, for all workers."""
        folder = os.open(self._state, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            self.look()
            ended = self._ended.and_one(session, int(time.time()))
            write_private(self._file, json.dumps(ended._asdict()).encode())
        finally:
            os.close(folder)
        self.look()

    def look(self) -> None:
        """Take what others have ended."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return
        stamp = found.st_ino, found.st_mtime_ns
        if stamp != self._stamp:
            self._ended, self._stamp = self._read(), stamp

    def _read(self) -> Ended:
        require_private(self._file)
        try:
            return Ended(**json.loads(self._file.read_bytes()))
        except (ValueError, TypeError) as problem:
            raise BadSessions(
                f"{self._file} cannot be read: {problem}. Remove it, and revoke the tokens of whoever logged out in "
                f"the last {SESSION_SECONDS // 3600} hours."
            ) from problem
