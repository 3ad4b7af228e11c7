"""Work that gives way: a process that gets little of a core that others want, but never nothing."""

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

NICE = 5  # a third of what another gets; idle work, of which Linux has a word, might never end where others are busy


def give_way(*pids: int) -> None:
    """Have processes and what they start from now on give way to all others; it cannot be taken back."""
    pids = (*pids, *_descendants(pids))
    polite: set[int] = set()
    while news := {*chain.from_iterable(map(_threads, pids))} - polite:  # a thread may start another meanwhile
        for thread in news:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, thread, NICE)
        polite |= news
    _let_sessions_give_way(pids)


def _descendants(pids: Iterable[int]) -> set[int]:
    """The processes that processes have started, and those these have."""
    parents = dict(filter(None, map(_parent, Path("/proc").glob("[0-9]*/stat"))))
    found: set[int] = set()
    while news := {pid for pid, parent in parents.items() if parent in {*pids, *found}} - found:
        found |= news
    return found


def _parent(stat: Path) -> tuple[int, int] | None:
    try:
        return int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended meanwhile
        return None


def _threads(pid: int) -> set[int]:
    """Linux has a priority for each thread; elsewhere the process has one."""
    try:
        return {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}
    except OSError:  # no Linux, or it has ended meanwhile
        return {pid}


def _let_sessions_give_way(pids: Iterable[int]) -> None:
    """Where Linux shares cores out to sessions first (autogroups), a thread is nice only to others of its own.

    A session that others are in as well is left as it is.
    """
    for session in {*map(_session, pids)} & {*pids}:
        with suppress(OSError):  # not every Linux has them
            Path(f"/proc/{session}/autogroup").write_text(str(NICE))


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:  # it has ended meanwhile
        return None
