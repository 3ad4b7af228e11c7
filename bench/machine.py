"""The machine and the versions of a measurement."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Self

from headrace.embedded_servers.jars import locked_jars
from headrace.embedded_servers.java import find_java

IDLE_LOAD = 0.5


@dataclass(frozen=True)
class Machine:
    """The machine of a measurement, and its load before."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    java: str
    spark: str
    kafka: str
    redis: str
    wrk: str
    commit: str
    load_at_start: float

    @classmethod
    def here(cls) -> Self:
        """This machine, now."""
        return cls(
            cpu=cpu_model(_text("/proc/cpuinfo")),
            cores=len(os.sched_getaffinity(0)),
            memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            kernel=platform.release().partition("-")[0],
            python=platform.python_version(),
            java=java_version(_printed(str(find_java().command), "-version")),
            spark=version("pyspark"),
            kafka=next(jar.version for jar in locked_jars("broker") if jar.artifact == "kafka-server"),
            redis=first_number(_printed("redis-server", "--version")),
            wrk=first_number(_printed("wrk", "--version")),
            commit=_printed("git", "describe", "--always", "--dirty").strip() or "unknown",
            load_at_start=round(os.getloadavg()[0], 2),
        )

    @property
    def warning(self) -> str:
        """Why a measurement now would be unreliable; empty if nothing does."""
        if self.load_at_start <= IDLE_LOAD:
            return ""
        return (
            f"The machine is busy: its load average is {self.load_at_start}. "
            f"Figures are worth keeping where it is at most {IDLE_LOAD}."
        )

    @property
    def hardware(self) -> str:
        """The properties that stay the same between runs."""
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib} GiB · Linux {self.kernel} · Python {self.python} · "
            f"Java {self.java} · Spark {self.spark} · Kafka {self.kafka} · Redis {self.redis} · wrk {self.wrk}"
        )

    def markdown(self) -> str:
        """The header of a page of figures."""
        line = f"{self.hardware} · commit {self.commit} · load at start {self.load_at_start}"
        return f"{line}\n\n**{self.warning}**" if self.warning else line


def available_bytes() -> int:
    """The available memory."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def cpu_model(cpuinfo: str) -> str:
    """The processor's name in /proc/cpuinfo.

    >>> cpu_model("processor : 0\\nmodel name : Some CPU @ 2.00GHz\\n")
    'Some CPU @ 2.00GHz'
    """
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def java_version(printed: str) -> str:
    """The version in the output of `java -version`.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    '17.0.15'
    """
    found = re.search(r'version "([^"]+)"', printed)
    return found[1] if found else "unknown"


def first_number(printed: str) -> str:
    """The first version in a program's output.

    >>> first_number("Redis server v=7.0.15 sha=00000000:0")
    '7.0.15'
    """
    found = re.search(r"\d+(\.\d+)+", printed)
    return found[0] if found else "none"


def _text(path: str) -> str:
    file = Path(path)
    return file.read_text() if file.exists() else ""


def _printed(*command: str) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return ""
    return run.stdout + run.stderr
