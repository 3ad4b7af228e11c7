"""The jars Spark, the broker and other servers need: locked by SHA-256, downloaded once, cached for the user."""

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from headrace.embedded_servers.download import Download, DownloadFailed, fetch_file, mask_credentials, sha256_of
from headrace.embedded_servers.maven import maven_repository
from headrace.errors import HeadraceError

JarSet = Literal["spark", "broker", "connect", "registry", "cassandra", "pulsar"]
REQUIRED_JAR_SETS: tuple[JarSet, ...] = ("spark", "broker")  # by every app; the others by some features
ProgressCallback = Callable[[str], None]

_PARALLEL_DOWNLOADS = 4
_PROGRESS_EVERY_S = 1.0


class JarUnavailable(HeadraceError):
    """A required jar is not in the cache and could not be downloaded."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock file."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int
    classifier: str = ""
    extension: str = "jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """The file's name, as in a Maven repository."""
        return f"{self.artifact}-{self.version}{self.classifier and '-'}{self.classifier}.{self.extension}"

    @property
    def repository_path(self) -> str:
        """The path under a Maven repository's root."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"


def ignore_progress(_line: str) -> None:
    """A progress callback that does nothing."""


def jar_paths(set_name: JarSet, progress: ProgressCallback = ignore_progress) -> list[Path]:
    """The paths of a set's jars, each with the right SHA-256; missing ones are downloaded."""
    jars, cache = locked_jars(set_name), cache_dir()
    if faulty_jars(jars, cache):
        _fetch_faulty(jars, cache, progress)
    return [cache / jar.file_name for jar in jars]


def locked_jars(set_name: JarSet) -> tuple[Jar, ...]:
    """The jars of one set, in the lock file's order."""
    lines = files("headrace.embedded_servers").joinpath("jars.lock").read_text().splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return tuple(_parse_jar(*rest) for name, *rest in rows if name == set_name)


def _parse_jar(coordinate: str, sha256: str, size: str) -> Jar:
    group, artifact, version, *qualifiers = coordinate.split(":")
    return Jar(group, artifact, version, sha256, int(size), *qualifiers)


def cache_dir() -> Path:
    """The folder of the cached jars: under HEADRACE_CACHE, else the user's cache folder."""
    configured = os.environ.get("HEADRACE_CACHE")
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(configured) if configured else user_cache / "headrace").absolute() / "jars"


def faulty_jars(jars: tuple[Jar, ...], cache: Path) -> dict[Jar, Literal["missing", "broken"]]:
    """The jars that are missing from the cache, or differ from the lock file."""
    faults: dict[Jar, Literal["missing", "broken"]] = {}
    for jar in jars:
        path = cache / jar.file_name
        if not path.is_file():
            faults[jar] = "missing"
        elif path.stat().st_size != jar.size or sha256_of(path) != jar.sha256:
            faults[jar] = "broken"
    return faults


def _fetch_faulty(jars: tuple[Jar, ...], cache: Path, progress: ProgressCallback) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _exclusive_lock(cache, progress):
            faults = faulty_jars(jars, cache)  # another process may have downloaded them meanwhile
            for jar in (jar for jar, fault in faults.items() if fault == "broken"):
                progress(f"{cache / jar.file_name} is not what the lock file says: fetching it again")
            _fetch_all(tuple(faults), cache, progress)
    except OSError as error:
        raise JarUnavailable(
            f"Jars cannot be kept in {cache}: {error.strerror or error}. "
            "Make room there, or set HEADRACE_CACHE to another folder."
        ) from error


@contextmanager
def _exclusive_lock(cache: Path, progress: ProgressCallback) -> Iterator[None]:
    """An exclusive lock on the cache; it ends with the process, however that ends."""
    with (cache / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"another process is fetching jars into {cache}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_all(jars: tuple[Jar, ...], cache: Path, progress: ProgressCallback) -> None:
    if not jars:
        return
    repository, download_progress = maven_repository(), _DownloadProgress(sum(jar.size for jar in jars), progress)
    progress(f"fetching {len(jars)} jars, {download_progress.total / 1e6:.1f} MB, into {cache}")
    with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
        tasks = [pool.submit(_fetch_one, jar, repository, cache, download_progress) for jar in jars]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch_one(jar: Jar, repository: str, cache: Path, download_progress: "_DownloadProgress") -> None:
    target = cache / jar.file_name
    try:
        fetch_file(Download(repository + jar.repository_path, target, jar.sha256, jar.size), download_progress.add)
    except DownloadFailed as error:
        raise JarUnavailable(
            f"{jar} is not to be had. {error}. Try again when {mask_credentials(repository)} can be reached, "
            "set HEADRACE_MAVEN to a Maven repository that has it, "
            f"or put the file at {target} (SHA-256 {jar.sha256})."
        ) from error


class _DownloadProgress:
    """Counts bytes from several threads and reports progress about once a second."""

    def __init__(self, total: int, progress: ProgressCallback) -> None:
        self.total = total
        self._progress = progress
        self._received = 0
        self._reported_at = time.monotonic()
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self._received += count
            now = time.monotonic()
            if now - self._reported_at < _PROGRESS_EVERY_S and self._received < self.total:
                return
            self._reported_at = now
        self._progress(f"jars: {self._received / 1e6:.1f} of {self.total / 1e6:.1f} MB")


def main() -> None:
    """Download the given sets, or those every app needs; for `make setup`."""

    def print_line(line: str) -> None:
        sys.stderr.write(f"    {line}\n")

    for set_name in get_args(JarSet):
        if set_name in (sys.argv[1:] or REQUIRED_JAR_SETS):
            jar_paths(set_name, print_line)


if __name__ == "__main__":
    try:
        main()
    except HeadraceError as error:
        sys.exit(str(error))
