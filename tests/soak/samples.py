"""Samples of the system's resource use every few seconds, and the slope of each over time.

Memory is shown by part and disk by folder: a restart makes a part small again, and the log and the lake grow with what
they are asked to keep, so that sums alone would hide a leak or show one that is none.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from tests.soak.faults import PARTS
from tests.soak.system import System

EVERY_S = 5.0
FOLDERS_EVERY_S = 60.0
SUMS = ("memory_mib", "files", "threads", "processes", "disk_mib")


@dataclass(frozen=True)
class Sample:
    """All processes together, then the memory of each part and, once a minute, the folders of the state."""

    at_s: float
    memory_mib: float
    files: int
    threads: int
    processes: int
    disk_mib: float
    parts_mib: Mapping[str, float] = field(default_factory=dict)
    folders_mib: Mapping[str, float] = field(default_factory=dict)


class Sampler(threading.Thread):
    """Takes samples until it is stopped."""

    def __init__(self, system: System, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self._system, self._clock, self._began = system, clock, clock()
        self._folders_due_s = 0.0
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            self.samples.append(self._look())

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _look(self) -> Sample:
        at_s, system = self._clock() - self._began, self._system
        found = {pid: usage for pid in system.processes() if (usage := _process(pid)) is not None}
        memory, files, threads = (sum(one[place] for one in found.values()) for place in range(3))
        parts = {
            part: sum(found[pid][0] for pid in pids if pid in found) / 1024
            for part, pids in system.running.processes_of(("broker", *PARTS)).items()
        }
        disk = shutil.disk_usage(system.disk).used / 2**20 if system.is_disk_bounded else 0.0
        return Sample(at_s, memory / 1024, int(files), int(threads), len(found), disk, parts, self._folders(at_s))

    def _folders(self, at_s: float) -> dict[str, float]:
        if at_s < self._folders_due_s:
            return {}
        self._folders_due_s = at_s + FOLDERS_EVERY_S
        return {folder.name: size_mib(folder) for folder in self._system.running.state.iterdir() if folder.is_dir()}


def size_mib(folder: Path) -> float:
    """The disk space of the files below a folder; Kafka's files are sparse, so their length is more."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # deleted meanwhile
                total += os.lstat(Path(path, name)).st_blocks * 512
    return total / 2**20


def _process(pid: int) -> tuple[float, int, int] | None:
    """Resident kB, open files and threads of a process; None of one that has ended."""
    with suppress(OSError, KeyError):  # a zombie process has no memory
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in lines if ":" in line)
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return float(values["VmRSS"].split()[0]), files, int(values["Threads"])
    return None


def slopes(samples: list[Sample]) -> dict[str, tuple[float, float]]:
    """The median of the last two thirds, and their growth per hour by least squares."""
    late = samples[len(samples) // 3 :]
    found = {}
    for name in dict.fromkeys(name for sample in late for name, _ in _values(sample)):
        points = [(sample.at_s / 3600, value) for sample in late for other, value in _values(sample) if other == name]
        hours, values = np.array(points, float).T
        slope = float(np.polyfit(hours, values, 1)[0]) if len(points) > 1 else 0.0
        found[name] = float(np.median(values)), slope
    return found


def _values(sample: Sample) -> Iterator[tuple[str, float]]:
    every = asdict(sample)
    yield from ((name, every[name]) for name in SUMS)
    yield from ((f"memory of {part}", value) for part, value in sample.parts_mib.items())
    yield from ((f"disk of {folder}", value) for folder, value in sample.folders_mib.items())
