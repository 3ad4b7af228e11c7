"""The embedded broker: a real Apache Kafka, one KRaft node on loopback, as a child process."""

import errno
import hashlib
import shutil
import time
from pathlib import Path
from typing import Self

from headrace.errors import HeadraceError
from headrace.local.child import Child, ProcessId
from headrace.local.exit_reason import exit_reason
from headrace.local.folder import OwnFolder
from headrace.local.jars import Progress, cache_dir, jar_paths, silent
from headrace.local.java import Java, find_java
from headrace.local.kraft import CONFIG, LOGGING, OPEN, Guard, Listeners, prepare
from headrace.local.ports import HOST, free_port, require_free

SERVER = "broker"
DEFAULT_PORT = 9092
_START_LIMIT_S = 300
_STOP_GRACE_S = 30
_LOOK_EVERY_S = 0.05
_LEAST_FREE_BYTES = 64 << 20
_STARTED = "Kafka Server started"
# A heap that grows from little is collected whole each time, which stops the broker for 80 ms and more; docs/adr/0027.
_JVM = ("-Xms256m", "-Xmn128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_JVM_LOGGING = f"-Dlog4j2.configurationFile={LOGGING}"


class BrokerFailed(HeadraceError):
    """The broker ended on its own or did not start, with its last words."""


class DiskFull(HeadraceError):
    """There is no room left for the broker's log."""


class Broker:
    """A Kafka broker on 127.0.0.1 whose data are in STATE/broker; port 0 picks a free one."""

    def __init__(
        self,
        state_dir: Path | str,
        port: int = DEFAULT_PORT,
        progress: Progress = silent,
        jvm: tuple[str, ...] = (),
        guard: Guard = OPEN,
    ) -> None:
        self._own = OwnFolder(state_dir, SERVER)
        self.folder = self._own.path
        self.port = port
        self._progress = progress
        self._jvm = jvm
        self._guard = guard
        self._child: Child | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Where clients connect: HOST:PORT."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The broker's process id while it runs."""
        return self._child.pid if self._child and self._child.alive() else None

    @property
    def log(self) -> Path:
        """The broker's own log."""
        return self._own.log

    def alive(self) -> bool:
        """Whether the broker runs."""
        return self.pid is not None

    def exit_reason(self) -> str:
        """Why the broker ended, in one sentence."""
        return exit_reason(self._own.said(), None if self._child is None else self._child.exit_code)

    def require_startable(self) -> None:
        """Raise what would keep the broker from ever starting: no Java, a folder in use, a full disk, a taken port."""
        find_java()
        jar_paths("broker", self._progress)
        try:
            self._claim()
        except OSError as error:
            self.stop()
            raise self._unwritable(error) from error
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """Raise what ended the broker, if it has ended on its own."""
        if self._child and not self._child.alive():
            raise self._failure("has ended")

    def last_words(self) -> str:
        """The end of what the broker said."""
        return self._own.last_words()

    def start(self) -> None:
        """Start the broker and return once it serves; one left over by a crash is ended first."""
        java, jars = find_java(), jar_paths("broker", self._progress)
        try:
            self._claim()
            listeners = Listeners(HOST, self.port, free_port(beside=self.port), self._guard)
            prepare(self.folder, listeners, after_crash=self._own.was_left)
            self._launch(java, jars)
            self._wait_until_started()
        except OSError as error:
            self.stop()
            raise self._unwritable(error) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the broker cleanly; its data stay."""
        if self._child:
            if self._child.stop(_STOP_GRACE_S):
                self._own.forget()  # what a crash leaves behind tells the next start of it
            self._child = None
        self._own.let_go()

    def _end_left_over(self) -> None:
        """End the broker of a Headrace that crashed: it holds the data until it is gone."""
        left_over = self._own.recorded()
        if left_over and left_over.alive():
            self._progress(f"ending the broker left over by a crash (process {left_over.pid})")
            left_over.stop(_STOP_GRACE_S)

    def _require_room(self) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < _LEAST_FREE_BYTES:
            raise DiskFull(_no_room(self.folder, free))

    def _claim(self) -> None:
        """Hold the folder, end what a crash left running there, and see that there is room and a port."""
        if not self._own.is_held:
            self._own.hold("runs a broker on")
        self._end_left_over()
        self._require_room()
        self.port = self.port or free_port()
        require_free(self.port, setting="--broker-port")

    def _launch(self, java: Java, jars: list[Path]) -> None:
        self._own.turn_log()
        archive = archive_of(java, jars)
        extra = (*self._jvm, *((f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()))
        classes = ("-cp", ":".join(map(str, jars)))
        properties = [f"-D{name}={value}" for name, value in self._guard.properties.items()]
        command = [str(java.command), *_JVM, _JVM_LOGGING, *properties, *extra, *classes, "kafka.Kafka", CONFIG]
        self._child = Child(command, folder=self.folder, output=self._own.output)
        self._child.start()
        self._own.record(self._child)

    def _wait_until_started(self) -> None:
        deadline = time.monotonic() + _START_LIMIT_S
        while _STARTED not in _text(self.log):
            if self._child is None:
                raise BrokerFailed(f"The broker at {self.address} was stopped while it started.")
            self.check()
            if time.monotonic() > deadline:
                raise self._failure(f"did not start within {_START_LIMIT_S} s")
            time.sleep(_LOOK_EVERY_S)

    def _failure(self, what: str) -> HeadraceError:
        said = self._own.said()
        free = shutil.disk_usage(self.folder).free
        # On a full disk its log may end before it says so.
        if "No space left on device" in said or free < _LEAST_FREE_BYTES:
            return DiskFull(_no_room(self.folder, free))
        return BrokerFailed(
            f"The broker at {self.address} {what}. Its log is {self.log}; run `headrace doctor`. "
            f"It ends with:\n{self.last_words()}"
        )

    def _unwritable(self, error: OSError) -> HeadraceError:
        if error.errno == errno.ENOSPC:
            return DiskFull(_no_room(self.folder, 0))
        return BrokerFailed(
            f"The broker cannot use {self.folder}: {error}. Make it writable, or choose another with --state."
        )


def archive_of(java: Java, jars: list[Path]) -> Path:
    """Where the archive of the broker's classes is for this Java and these jars, if `make setup` has made it."""
    release = _text(java.home / "release")
    key = hashlib.sha256("\n".join([str(java.home), release, *map(str, jars)]).encode()).hexdigest()[:16]
    return cache_dir().parent / "archives" / f"broker-{key}.jsa"


def recorded_broker(state_dir: Path) -> ProcessId | None:
    """The process last recorded as this folder's broker; it may have ended since."""
    return OwnFolder(state_dir, SERVER).recorded()


def _no_room(folder: Path, free: int) -> str:
    return (
        f"The broker has no room on the disk: {free / 1e6:.0f} MB are free under {folder}. "
        "Make room there, or choose a folder on another disk with --state."
    )


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
