"""Find the Java that Spark and the broker run on."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

VERSIONS = (17, 21)  # what Spark 4.3 and Kafka 4.3 both run on
_RELEASE = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
_PRINTED = re.compile(r'version "(\d+)')


class JavaMissing(HeadraceError):
    """There is no Java 17 or 21 on this machine."""


@dataclass(frozen=True)
class Java:
    """A Java runtime: its home folder and its feature version."""

    home: Path
    version: int

    @property
    def command(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"


def find_java() -> Java:
    """The first Java 17 or 21 of JAVA_HOME, PATH and /usr/lib/jvm."""
    found: list[str] = []
    for place, home in _places():
        version = version_of(home)
        if version in VERSIONS:
            return Java(home, version)
        found.append(f"{place}: Java {version}" if version else f"{place}: no Java")
    raise JavaMissing(f"Java 17 or 21 is needed. Looked at {'; '.join(found)}. Install it: {install_command()}")


def version_of(home: Path) -> int | None:
    """The feature version of the Java at this home, or None where there is none."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    release = home / "release"
    written = _RELEASE.search(release.read_text(errors="replace")) if release.is_file() else None
    found = written or _PRINTED.search(_printed_version(home))
    return int(found[1]) if found else None


def install_command() -> str:
    """The one command that installs a Java that fits."""
    for program, command in (
        ("apt-get", "apt-get install -y openjdk-17-jre-headless"),
        ("dnf", "dnf install -y java-17-openjdk-headless"),
        ("apk", "apk add openjdk17-jre-headless"),
        ("brew", "brew install openjdk@17"),
    ):
        if shutil.which(program):
            return command if program == "brew" or os.geteuid() == 0 else f"sudo {command}"
    return "get a JRE 17 for this machine and set JAVA_HOME to its folder"


def _places() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home)
    on_path = shutil.which("java")
    yield "PATH", Path(on_path).resolve().parents[1] if on_path else Path("/nonexistent")
    installed = Path("/usr/lib/jvm")
    for home_path in sorted(installed.glob("*")) if installed.is_dir() else ():
        if not home_path.is_symlink() and (home_path / "bin").is_dir():
            yield str(home_path), home_path


def _printed_version(home: Path) -> str:
    try:
        run = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stderr + run.stdout
