"""Log files of processes that are started again and again: those of the last few runs are kept."""

from pathlib import Path

KEPT = 5


def rotate_log(log: Path, kept: int = KEPT) -> None:
    """Make room for a new log: the last one becomes NAME.1, the one before NAME.2, and so on."""
    for number in range(kept - 1, 0, -1):
        older = _numbered(log, number)
        if older.exists():
            older.replace(_numbered(log, number + 1))
    if log.exists():
        log.replace(_numbered(log, 1))


def read_end(log: Path, most_bytes: int = 256 << 10) -> str:
    """The end of a log; empty where there is none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
