"""Lowers the CPU priority of a process: it gets little of a contended core, but never nothing."""

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

NICE_LEVEL = 5  # a third of a normal share; Linux's idle class might never finish on a busy machine


def lower_priority(*pids: int) -> None:
    """Lower the priority of processes and of what they start from now on; this cannot be undone."""
    pids = (*pids, *_descendants(pids))
    lowered: set[int] = set()
    while (
        new_threads := {*chain.from_iterable(map(_thread_ids, pids))} - lowered
    ):  # a thread may start another one meanwhile
        for thread in new_threads:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, thread, NICE_LEVEL)
        lowered |= new_threads
    _lower_session_priority(pids)


def _descendants(pids: Iterable[int]) -> set[int]:
    """The descendants of processes."""
    parents = dict(filter(None, map(_read_parent, Path("/proc").glob("[0-9]*/stat"))))
    descendants: set[int] = set()
    while new_pids := {pid for pid, parent in parents.items() if parent in {*pids, *descendants}} - descendants:
        descendants |= new_pids
    return descendants


def _read_parent(stat: Path) -> tuple[int, int] | None:
    try:
        return int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended meanwhile
        return None


def _thread_ids(pid: int) -> set[int]:
    """The threads of a process: Linux has a priority for each; elsewhere the process has one."""
    try:
        return {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}
    except OSError:  # no Linux, or it has ended meanwhile
        return {pid}


def _lower_session_priority(pids: Iterable[int]) -> None:
    """Lower the priority of the session where Linux shares cores by session first (autogroups).

    There a thread is nice only to others of its own session. A session with other processes in it is not changed.
    """
    for session in {*map(_session_id, pids)} & {*pids}:
        with suppress(OSError):  # not every Linux has autogroups
            Path(f"/proc/{session}/autogroup").write_text(str(NICE_LEVEL))


def _session_id(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:  # it has ended meanwhile
        return None
