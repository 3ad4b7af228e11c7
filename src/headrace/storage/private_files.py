"""Files of the state folder that only the owner may read: written atomically, refused if others can read them."""

import os
import secrets
import stat
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.storage.private_folder import GROUP_AND_OTHERS_BITS, make_private_folder


class FileNotPrivateError(HeadraceError):
    """A private file is readable or writable by others."""


def require_private_file(file: Path) -> None:
    """Refuse a file that others can read, or that another user owns."""
    file_stat = file.stat()
    if file_stat.st_mode & GROUP_AND_OTHERS_BITS:
        raise FileNotPrivateError(
            f"{file} is readable by others (mode {stat.S_IMODE(file_stat.st_mode):04o}). Run chmod 600 {file}."
        )
    if file_stat.st_uid not in {os.geteuid(), 0}:
        raise FileNotPrivateError(
            f"{file} belongs to another user. Change its owner, or choose another folder with --state."
        )


def write_private_file(file: Path, content: bytes) -> None:
    """Write atomically: concurrent readers see the old content or the new."""
    temp_file = _write_temp_file(file, content)
    temp_file.replace(file)


def read_or_create(file: Path, content: bytes) -> bytes:
    """The content of a file, which is created with this content if missing; of concurrent callers one creates it."""
    if not file.exists():
        temp_file = _write_temp_file(file, content)
        try:
            os.link(temp_file, file)
        except FileExistsError:
            pass  # another process was first
        finally:
            temp_file.unlink()
    require_private_file(file)
    return file.read_bytes()


def _write_temp_file(file: Path, content: bytes) -> Path:
    make_private_folder(file.parent)
    temp_file = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(temp_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as temp_handle:
        temp_handle.write(content)
        temp_handle.flush()
        os.fsync(temp_handle.fileno())
    return temp_file
