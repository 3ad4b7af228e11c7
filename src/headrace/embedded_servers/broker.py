"""The embedded broker: a real Apache Kafka, one KRaft node on loopback, as a child process."""

import errno
import hashlib
import shutil
import time
from pathlib import Path
from typing import Self

from headrace.embedded_servers.child_process import ChildProcess, ProcessId
from headrace.embedded_servers.exit_reason import exit_reason
from headrace.embedded_servers.jars import ProgressCallback, cache_dir, ignore_progress, jar_paths
from headrace.embedded_servers.java import JavaRuntime, find_java
from headrace.embedded_servers.kraft import (
    CONFIG_FILE,
    LOGGING_FILE,
    NO_SECURITY,
    BrokerListeners,
    ListenerSecurity,
    prepare_folder,
)
from headrace.embedded_servers.ports import HOST, free_port, require_free
from headrace.embedded_servers.server_folder import ServerFolder
from headrace.errors import HeadraceError

SERVER_NAME = "broker"
DEFAULT_PORT = 9092
_START_LIMIT_S = 300
_STOP_GRACE_S = 30
_LOOK_EVERY_S = 0.05
_MIN_FREE_BYTES = 64 << 20
_STARTED_MESSAGE = "Kafka Server started"
# A heap that grows from little is fully collected each time, which stops the broker for 80 ms and more; docs/adr/0027.
_JVM_OPTIONS = ("-Xms256m", "-Xmn128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_JVM_LOGGING_OPTION = f"-Dlog4j2.configurationFile={LOGGING_FILE}"


class BrokerFailed(HeadraceError):
    """The broker ended by itself or did not start; the message has the end of its log."""


class DiskFullError(HeadraceError):
    """The disk has no space left for the broker's log."""


class EmbeddedBroker:
    """A Kafka broker on 127.0.0.1 with its data in STATE/broker; port 0 picks a free one."""

    def __init__(
        self,
        state_dir: Path | str,
        port: int = DEFAULT_PORT,
        progress: ProgressCallback = ignore_progress,
        jvm_options: tuple[str, ...] = (),
        security: ListenerSecurity = NO_SECURITY,
    ) -> None:
        self._server_folder = ServerFolder(state_dir, SERVER_NAME)
        self.folder = self._server_folder.path
        self.port = port
        self._progress = progress
        self._jvm_options = jvm_options
        self._security = security
        self._child: ChildProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """The bootstrap address, HOST:PORT."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The broker's process id while it runs."""
        return self._child.pid if self._child and self._child.is_alive() else None

    @property
    def log(self) -> Path:
        """The broker's log file."""
        return self._server_folder.log

    def is_alive(self) -> bool:
        """Whether the broker runs."""
        return self.pid is not None

    def exit_reason(self) -> str:
        """Why the broker ended, in one sentence."""
        return exit_reason(self._server_folder.read_output(), None if self._child is None else self._child.exit_code)

    def require_startable(self) -> None:
        """Raise what prevents the broker from starting: no Java, a folder in use, a full disk, a taken port."""
        find_java()
        jar_paths("broker", self._progress)
        try:
            self._claim_resources()
        except OSError as error:
            self.stop()
            raise self._to_folder_error(error) from error
        except BaseException:
            self.stop()
            raise

    def raise_if_ended(self) -> None:
        """Raise the reason why the broker has ended by itself, if it has."""
        if self._child and not self._child.is_alive():
            raise self._failure("has ended")

    def log_tail(self) -> str:
        """The end of the broker's output."""
        return self._server_folder.log_tail()

    def start(self) -> None:
        """Start the broker and return once it serves; first ends one left over by a crash."""
        java, jars = find_java(), jar_paths("broker", self._progress)
        try:
            self._claim_resources()
            listeners = BrokerListeners(HOST, self.port, free_port(excluded=self.port), self._security)
            prepare_folder(self.folder, listeners, after_crash=self._server_folder.has_recorded_process)
            self._launch(java, jars)
            self._wait_until_started()
        except OSError as error:
            self.stop()
            raise self._to_folder_error(error) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the broker cleanly; its data stays."""
        if self._child:
            if self._child.stop(_STOP_GRACE_S):
                self._server_folder.forget_process()  # after a crash this record stays for the next start
            self._child = None
        self._server_folder.unlock()

    def _stop_orphan(self) -> None:
        """End the broker of a Headrace that crashed: it locks the data until it has ended."""
        orphan = self._server_folder.recorded_process()
        if orphan and orphan.is_alive():
            self._progress(f"ending the broker left over by a crash (process {orphan.pid})")
            orphan.stop(_STOP_GRACE_S)

    def _require_disk_space(self) -> None:
        free_bytes = shutil.disk_usage(self.folder).free
        if free_bytes < _MIN_FREE_BYTES:
            raise DiskFullError(_disk_full_message(self.folder, free_bytes))

    def _claim_resources(self) -> None:
        """Lock the folder, end what a crash left running there, and check for space and a free port."""
        if not self._server_folder.is_locked:
            self._server_folder.lock("runs a broker on")
        self._stop_orphan()
        self._require_disk_space()
        self.port = self.port or free_port()
        require_free(self.port, setting="--broker-port")

    def _launch(self, java: JavaRuntime, jars: list[Path]) -> None:
        self._server_folder.rotate_logs()
        archive = broker_archive_path(java, jars)
        extra_options = (*self._jvm_options, *((f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()))
        classpath_options = ("-cp", ":".join(map(str, jars)))
        properties = [f"-D{name}={value}" for name, value in self._security.jvm_properties.items()]
        command = [
            str(java.command),
            *_JVM_OPTIONS,
            _JVM_LOGGING_OPTION,
            *properties,
            *extra_options,
            *classpath_options,
            "kafka.Kafka",
            CONFIG_FILE,
        ]
        self._child = ChildProcess(command, folder=self.folder, output=self._server_folder.output)
        self._child.start()
        self._server_folder.record_process(self._child)

    def _wait_until_started(self) -> None:
        deadline = time.monotonic() + _START_LIMIT_S
        while _STARTED_MESSAGE not in _read_text(self.log):
            if self._child is None:
                raise BrokerFailed(f"The broker at {self.address} was stopped while it started.")
            self.raise_if_ended()
            if time.monotonic() > deadline:
                raise self._failure(f"did not start within {_START_LIMIT_S} s")
            time.sleep(_LOOK_EVERY_S)

    def _failure(self, what: str) -> HeadraceError:
        output = self._server_folder.read_output()
        free_bytes = shutil.disk_usage(self.folder).free
        # On a full disk its log may end before it says so.
        if "No space left on device" in output or free_bytes < _MIN_FREE_BYTES:
            return DiskFullError(_disk_full_message(self.folder, free_bytes))
        return BrokerFailed(
            f"The broker at {self.address} {what}. Its log is {self.log}; run `headrace doctor`. "
            f"It ends with:\n{self.log_tail()}"
        )

    def _to_folder_error(self, error: OSError) -> HeadraceError:
        if error.errno == errno.ENOSPC:
            return DiskFullError(_disk_full_message(self.folder, 0))
        return BrokerFailed(
            f"The broker cannot use {self.folder}: {error}. Make it writable, or choose another with --state."
        )


def broker_archive_path(java: JavaRuntime, jars: list[Path]) -> Path:
    """The class archive of the broker for this Java and these jars, if `make setup` has created it."""
    release = _read_text(java.home / "release")
    key = hashlib.sha256("\n".join([str(java.home), release, *map(str, jars)]).encode()).hexdigest()[:16]
    return cache_dir().parent / "archives" / f"broker-{key}.jsa"


def recorded_broker(state_dir: Path) -> ProcessId | None:
    """The process last recorded as this folder's broker; it may have ended since."""
    return ServerFolder(state_dir, SERVER_NAME).recorded_process()


def _disk_full_message(folder: Path, free_bytes: int) -> str:
    return (
        f"The broker has no room on the disk: {free_bytes / 1e6:.0f} MB are free under {folder}. "
        "Make room there, or choose a folder on another disk with --state."
    )


def _read_text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
