"""The embedded schema registry: Apicurio on loopback, as a child process, with its data in STATE/registry.

It serves Confluent's API under /apis/ccompat/v7, and needs a newer Java than Spark runs on.
"""

import shutil
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.exit_reason import exit_reason
from headrace.embedded_servers.jars import ProgressCallback, cache_dir, ignore_progress, jar_paths
from headrace.embedded_servers.java import find_newer_java
from headrace.embedded_servers.ports import HOST, free_port, require_free
from headrace.embedded_servers.server_folder import ServerFolder
from headrace.errors import HeadraceError

DEFAULT_PORT = 8081
API_PATH = "/apis/ccompat/v7"
_START_LIMIT_S = 300
_STOP_GRACE_S = 20
_LOOK_EVERY_S = 0.2
_REQUEST_TIMEOUT_S = 10
_DATABASE = "data"
_JVM_OPTIONS = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class SchemaRegistryFailed(HeadraceError):
    """The registry ended by itself or did not start; the message has the end of its log."""


class EmbeddedSchemaRegistry:
    """A schema registry on 127.0.0.1; port 0 picks a free one."""

    def __init__(
        self, state_dir: Path | str, port: int = DEFAULT_PORT, progress: ProgressCallback = ignore_progress
    ) -> None:
        self._server_folder = ServerFolder(state_dir, "registry")
        self.folder = self._server_folder.path
        self.port = port
        self._progress = progress
        self._child: ChildProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address for `registry=`."""
        return f"http://{HOST}:{self.port}{API_PATH}"

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._child is not None and self._child.is_alive()

    def log_tail(self) -> str:
        """The end of its output."""
        return self._server_folder.log_tail()

    def exit_reason(self) -> str:
        """Why it ended, in one sentence."""
        return exit_reason(self._server_folder.read_output(), None if self._child is None else self._child.exit_code)

    def require_startable(self) -> None:
        """Raise what prevents it from starting: no Java that is new enough, a taken port."""
        find_newer_java()
        jar_paths("registry", self._progress)
        self._require_port()

    def start(self) -> None:
        """Start it and return once it answers."""
        java = find_newer_java()
        (archive,) = jar_paths("registry", self._progress)
        program = unpack_archive(archive)
        self._require_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._server_folder.rotate_logs()
        command = [str(java.command), *_JVM_OPTIONS, *self._jvm_properties(), "-jar", str(program)]
        is_new = not (self.folder / f"{_DATABASE}.mv.db").exists()
        self._child = ChildProcess(command, folder=self.folder, output=self._server_folder.log)
        self._child.start()
        try:
            self._wait_until_answering()
            if is_new:
                self._set_backward_compatibility()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it; its data stays."""
        if self._child is not None:
            self._child.stop(_STOP_GRACE_S)
            self._child = None

    def _require_port(self) -> None:
        self.port = self.port or free_port()
        require_free(self.port, setting="--registry-port")

    def _set_backward_compatibility(self) -> None:
        """Set the default of Confluent's registry: a new version must be able to read data of the version before."""
        body, headers = b'{"compatibility": "BACKWARD"}', {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(f"{self.url}/config", body, headers, method="PUT")  # noqa: S310  # our own
        urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_S).close()  # noqa: S310

    def _jvm_properties(self) -> tuple[str, ...]:
        return (
            f"-Dquarkus.http.host={HOST}",
            f"-Dquarkus.http.port={self.port}",
            # Its management endpoint, which by default listens on port 9000 of every address.
            f"-Dquarkus.management.host={HOST}",
            f"-Dquarkus.management.port={free_port(excluded=self.port)}",
            "-Dquarkus.profile=prod",
            "-Dapicurio.storage.kind=sql",
            "-Dapicurio.storage.sql.kind=h2",
            f"-Dapicurio.datasource.url=jdbc:h2:file:{self.folder / _DATABASE}",
            "-Dquarkus.log.level=WARN",
        )

    def _wait_until_answering(self) -> None:
        deadline = time.monotonic() + _START_LIMIT_S
        while not self._is_answering():
            if not self.is_alive():
                raise self._failure("has ended")
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer within {_START_LIMIT_S} s")
            time.sleep(_LOOK_EVERY_S)

    def _is_answering(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as response:  # noqa: S310  # our own
                return bool(response.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def _failure(self, what: str) -> SchemaRegistryFailed:
        return SchemaRegistryFailed(
            f"The schema registry at {self.url} {what}. Its log is {self._server_folder.log}. It ends "
            f"with:\n{self.log_tail()}"
        )


def unpack_archive(archive: Path) -> Path:
    """The program of an archive, unpacked once next to the jars."""
    folder = cache_dir().parent / "registry" / archive.name.removesuffix(".tar.gz")
    if not folder.is_dir():
        draft = folder.with_name(f".{folder.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(draft, filter="data")
        draft.replace(folder)
    return folder / "quarkus-run.jar"
