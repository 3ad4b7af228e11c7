"""Work that gives way: a process that gets little of a core that others want, but never nothing."""

import os
from contextlib import suppress
from itertools import chain
from pathlib import Path

NICE = 10  # a tenth of what another gets; idle work, of which Linux has a word, might never end where others are busy


def give_way(*pids: int) -> None:
    """Have processes and what they start from now on give way to all others; it cannot be taken back."""
    polite: set[int] = set()
    while news := {*chain.from_iterable(map(_threads, pids))} - polite:  # a thread may start another meanwhile
        for thread in news:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, thread, NICE)
        polite |= news


def _threads(pid: int) -> set[int]:
    """Linux has a priority for each thread; elsewhere the process has one."""
    tasks = Path(f"/proc/{pid}/task")
    return {int(task.name) for task in tasks.iterdir()} if tasks.exists() else {pid}
