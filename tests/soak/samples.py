"""What the system takes of the machine, looked at every few seconds, and the slope of each over time."""

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.soak.system import System

EVERY_S = 5.0


@dataclass(frozen=True)
class Sample:
    """All processes together; disk is what the state takes."""

    at_s: float
    memory_mib: float
    files: int
    threads: int
    processes: int
    disk_mib: float


class Sampler(threading.Thread):
    """Takes samples until it is stopped."""

    def __init__(self, system: System, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self._system, self._clock, self._began = system, clock, clock()
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            self.samples.append(self._look())

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _look(self) -> Sample:
        pids = self._system.processes()
        each = [found for pid in pids if (found := _process(pid)) is not None]
        disk = shutil.disk_usage(self._system.disk).used / 2**20 if self._system.is_disk_bounded else 0.0
        memory, files, threads = (sum(one[place] for one in each) for place in range(3))
        return Sample(self._clock() - self._began, memory / 1024, int(files), int(threads), len(each), disk)


def _process(pid: int) -> tuple[float, int, int] | None:
    """Resident kB, open files and threads of a process; None of one that has ended."""
    with suppress(OSError, KeyError):  # one that nobody has waited for yet has no memory
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines if ":" in line)
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return float(values["VmRSS"].split()[0]), files, int(values["Threads"])
    return None


def slopes(samples: list[Sample]) -> dict[str, tuple[float, float]]:
    """The median of the last two thirds, and how much it grows in an hour, by least squares."""
    late = samples[len(samples) // 3 :]
    hours = np.array([sample.at_s / 3600 for sample in late])
    found = {}
    for name in ("memory_mib", "files", "threads", "processes", "disk_mib"):
        values = np.array([getattr(sample, name) for sample in late], float)
        found[name] = float(np.median(values)), float(np.polyfit(hours, values, 1)[0])
    return found
