"""The system under soak: `headrace up` on its own file system and clock, with a Redis and a PostgreSQL."""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from bench.postgres import OwnPostgres
from headrace.embedded_servers.java import find_java
from tests.running import Running, descendants
from tests.servers import OwnRedis

APP = Path(__file__).with_name("app.py")
EXAMPLE = Path(__file__).parents[2] / "examples" / "fraud"
DISK_BYTES = 4 << 30
JAVA = """#!/bin/sh
case "$*" in *kafka.Kafka*) export LD_PRELOAD={library} SHIFTED_CLOCK={file} ;; esac
exec {java} "$@"
"""


class BrokerClock:
    """The wall clock of the broker alone, by which records arrive: shifted while the broker runs.

    Needs a C compiler. (libfaketime is no use: under it a broker takes a core and a half, and Python cannot sleep.)
    """

    def __init__(self, folder: Path, compiler: str) -> None:
        self._file, library = folder / "clock", folder / "shifted_clock.so"
        self.shift(0)
        source = str(Path(__file__).with_name("shifted_clock.c"))
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), source, "-ldl"], check=True)
        self.java_home = folder / "java"
        java = self.java_home / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(JAVA.format(library=library, file=self._file, java=find_java().command))
        java.chmod(0o755)

    def shift(self, seconds: int) -> None:
        """Set the clock to a number of seconds ahead of the wall clock."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:  # in place: the broker has it mapped
            file.write(struct.pack("l", seconds))

    @contextmanager
    def given(self) -> Iterator[None]:
        """A broker that is started within the block uses this clock."""
        before = os.environ.get("JAVA_HOME")
        os.environ["JAVA_HOME"] = str(self.java_home)
        try:
            yield
        finally:
            del os.environ["JAVA_HOME"]
            if before is not None:
                os.environ["JAVA_HOME"] = before


@dataclass
class System:
    """The running system, and the handles that faults use."""

    running: Running
    redis: OwnRedis
    postgres: OwnPostgres
    disk: Path
    clock: BrokerClock | None  # None where there is no C compiler
    is_disk_bounded: bool

    def processes(self) -> list[int]:
        """The pids of `up` and of its descendants."""
        return [self.running.pid, *descendants(self.running.pid)]

    def below(self, part: str) -> list[int]:
        """The pids of a part's descendants."""
        pid = self.running.pid_of(part)
        return descendants(pid) if pid else []


@contextmanager
def started(folder: Path, seed: int) -> Iterator[System]:
    """The fraud example, trained and up."""
    sys.path.insert(0, str(EXAMPLE))
    from training import train_once

    with _disk(folder / "disk") as (disk, is_bounded):
        state, clock = disk / "state", _clock(folder)
        redis, postgres = OwnRedis(folder), OwnPostgres()
        postgres.start()
        redis.start()
        os.environ["SOAK_POSTGRES"] = postgres.url
        try:
            train_once(EXAMPLE / "app.py", "fraud", state, seed, print)
            running = Running(APP, state, "--store", redis.url, "--checkpoint", "1m", "--lake-every", "30s")
            with clock.given() if clock else nullcontext():
                running.start()
            try:
                running.wait_until_ready()
                yield System(running, redis, postgres, disk, clock, is_bounded)
            finally:
                running.stop()
        finally:
            redis.stop()
            postgres.remove()


@contextmanager
def _disk(folder: Path) -> Iterator[tuple[Path, bool]]:
    """A file system of a bounded size where we may mount one, else a plain folder."""
    folder.mkdir(parents=True)
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], check=False, capture_output=True
    )
    try:
        yield folder, mount.returncode == 0
    finally:
        if mount.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _clock(folder: Path) -> BrokerClock | None:
    compiler = shutil.which("cc")
    return None if compiler is None else BrokerClock(folder, compiler)
