"""The child processes of a test, read from /proc."""

from contextlib import suppress
from pathlib import Path


def own_children() -> set[int]:
    """The pids of this process' children."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def command_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
