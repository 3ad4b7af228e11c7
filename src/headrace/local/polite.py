"""Work that gives way: a process that gets a core only while nobody else wants it."""

import os
from contextlib import suppress
from itertools import chain
from pathlib import Path

LEAST = 19  # of what is urgent to Unix; where it has a word for idle work, that is used


def give_way(*pids: int) -> None:
    """Have processes and what they start from now on give way to all others; it cannot be taken back."""
    polite: set[int] = set()
    while news := {*chain.from_iterable(map(_threads, pids))} - polite:  # a thread may start another meanwhile
        for thread in news:
            with suppress(ProcessLookupError):
                _give_way(thread)
        polite |= news


def _give_way(thread: int) -> None:
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.setpriority(os.PRIO_PROCESS, thread, LEAST)


def _threads(pid: int) -> set[int]:
    """Linux has a scheduler's entry for each thread; elsewhere the process has one."""
    tasks = Path(f"/proc/{pid}/task")
    return {int(task.name) for task in tasks.iterdir()} if tasks.exists() else {pid}
