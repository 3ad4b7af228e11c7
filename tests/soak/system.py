"""The system that is soaked: `headrace up` on a file system and a clock of its own, with a Redis and a PostgreSQL."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.postgres import OwnPostgres
from headrace.local.java import find_java
from tests.running import Running, descendants
from tests.servers import OwnRedis

APP = Path(__file__).with_name("app.py")
EXAMPLE = Path(__file__).parents[2] / "examples" / "fraud"
DISK_BYTES = 4 << 30
JAVA = """#!/bin/sh
case "$*" in *kafka.Kafka*)
    export LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={clock} FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_CACHE_DURATION=1
esac
exec {java} "$@"
"""
FAKETIME = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
)


@dataclass
class System:
    """All that runs, and the handles by which faults reach it."""

    running: Running
    redis: OwnRedis
    postgres: OwnPostgres
    disk: Path
    clock: Path | None  # the file that sets the clock of the broker; None where libfaketime is not installed
    is_disk_bounded: bool

    def processes(self) -> list[int]:
        """`up` and everything below it."""
        return [self.running.pid, *descendants(self.running.pid)]

    def below(self, part: str) -> list[int]:
        """The processes that a part has started."""
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
            with _faked(clock):
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


def _clock(folder: Path) -> Path | None:
    if not any(Path(library).exists() for library in FAKETIME):
        return None
    file = folder / "clock"
    file.write_text("+0s\n")
    return file


@contextmanager
def _faked(clock: Path | None) -> Iterator[None]:
    """A broker that is started meanwhile takes its time from the file: the times at which records arrive are its own.

    No other process does: under libfaketime Python cannot sleep.
    """
    library = next((one for one in FAKETIME if Path(one).exists()), None)
    if clock is None or library is None:
        yield
        return
    java = clock.parent / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA.format(library=library, clock=clock, java=find_java().command))
    java.chmod(0o755)
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java.parents[1])
    try:
        yield
    finally:
        del os.environ["JAVA_HOME"]
        if before is not None:
            os.environ["JAVA_HOME"] = before
