"""The state folder: only its owner may access it, because it contains records, models and secrets."""

import os
import stat
from pathlib import Path

PRIVATE_MODE = 0o700
GROUP_AND_OTHERS_BITS = stat.S_IRWXG | stat.S_IRWXO


def make_private_folder(folder: Path) -> str | None:
    """Create a folder that only its owner may access, or close an open one; returns a warning if there is one.

    A folder that is not only used for the state stays as it is: one that all users share, or the working folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PRIVATE_MODE, exist_ok=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not mode & GROUP_AND_OTHERS_BITS:
        return None
    if mode & stat.S_ISVTX or Path.cwd().is_relative_to(folder.resolve()):
        return f"{folder} is open to other users (mode {mode:04o}) and has other uses. Give --state its own folder."
    try:
        folder.chmod(mode & ~GROUP_AND_OTHERS_BITS)
    except PermissionError:
        owner = folder.stat().st_uid
        return (
            f"{folder} is open to other users (mode {mode:04o}) and belongs to user {owner}, not to {os.geteuid()}. "
            f"Let its owner run chmod 700 {folder}."
        )
    return (
        f"{folder} was open to other users (mode {mode:04o}): it is closed to them now (mode "
        f"{mode & ~GROUP_AND_OTHERS_BITS:04o})."
    )
