"""Files of the state folder that nobody else may read: written in one step, refused where others can read them."""

import os
import secrets
import stat
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.private_folder import OTHERS, make_private_folder


class NotPrivate(HeadraceError):
    """A file that others may read or write, and must not."""


def require_private(file: Path) -> None:
    """Refuse a file that its owner shares, or that is another's."""
    found = file.stat()
    if found.st_mode & OTHERS:
        raise NotPrivate(
            f"{file} may be read by others (mode {stat.S_IMODE(found.st_mode):04o}). Run chmod 600 {file}."
        )
    if found.st_uid not in {os.geteuid(), 0}:
        raise NotPrivate(f"{file} belongs to another user. Make it yours, or choose another folder with --state.")


def write_private(file: Path, content: bytes) -> None:
    """In one step: who reads meanwhile reads what was there before."""
    new = _written_beside(file, content)
    new.replace(file)


def read_or_make(file: Path, content: bytes) -> bytes:
    """What is in a file, which is made with this content if there is none; of several at once, one makes it."""
    if not file.exists():
        new = _written_beside(file, content)
        try:
            os.link(new, file)
        except FileExistsError:
            pass  # another was first
        finally:
            new.unlink()
    require_private(file)
    return file.read_bytes()


def _written_beside(file: Path, content: bytes) -> Path:
    make_private_folder(file.parent)
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as writing:
        writing.write(content)
        writing.flush()
        os.fsync(writing.fileno())
    return new
