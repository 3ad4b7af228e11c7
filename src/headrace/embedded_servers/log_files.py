"""Log files of processes that restart: those of the last few runs are kept."""

from pathlib import Path

KEPT_LOGS = 5


def rotate_log(log: Path, kept_logs: int = KEPT_LOGS) -> None:
    """Rotate the log: the last one becomes NAME.1, the one before NAME.2, and so on."""
    for number in range(kept_logs - 1, 0, -1):
        rotated = _numbered_path(log, number)
        if rotated.exists():
            rotated.replace(_numbered_path(log, number + 1))
    if log.exists():
        log.replace(_numbered_path(log, 1))


def read_log_tail(log: Path, max_bytes: int = 256 << 10) -> str:
    """The end of a log; empty where there is none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - max_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _numbered_path(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
