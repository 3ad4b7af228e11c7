"""Set up the requirements of a make target on a bare machine; standard library only, for any python3."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
OLDEST = (3, 11)
JAVA = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")  # Debian 12 has the first, Debian 13 the second
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# uv gets pip's settings of this machine.
PIP_TO_UV = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS"}


def say(line: str) -> None:
    print(f"==> {line}", flush=True)


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    words = [str(word) for word in command]
    if subprocess.run(words, cwd=ROOT, env=env, check=False).returncode != 0:
        sys.exit(f"This failed, and says why above: {' '.join(words)}")


def works(*command: str | Path) -> bool:
    try:
        return subprocess.run([str(word) for word in command], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def printed(*command: str | Path) -> str:
    words = [str(word) for word in command]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def apt_install(*packages: str) -> bool:
    """Install Debian packages; False if apt, the permission to use it, or a package is missing."""
    if not shutil.which("apt-get"):
        return False
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if root and not works("sudo", "-n", "true"):
        return False
    say(f"installing {' '.join(packages)} with apt-get")
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    install = [*apt, "install", "-y", "--no-install-recommends", *packages]
    return works(*install) or (works(*apt, "update") and works(*install))


def interpreter() -> str:
    """A Python that is new enough: this one, else another on the PATH."""
    if sys.version_info >= OLDEST:
        return sys.executable
    for minor in range(15, OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and works(found, "-c", "import venv"):
            return found
    sys.exit(
        f"Headrace needs Python 3.11 or newer and {sys.executable} is {sys.version.split()[0]}: "
        "install a newer one and run make PYTHON=python3.12."
    )


def make_venv() -> None:
    if works(PYTHON, "-m", "pip", "--version"):
        return
    base = interpreter()
    if not works(base, "-m", "ensurepip", "--version"):
        version = printed(base, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
        name = f"python{version}-venv"
        if not (apt_install(name) or apt_install("python3-venv")):
            sys.exit(f"{base} cannot make a virtual environment: install it with 'apt-get install {name}'.")
    say(f"making .venv with {base}")
    run(base, "-m", "venv", "--clear", VENV)


def locked_uv() -> str:
    """The lock file's lines about uv itself: its version and its hashes."""
    text = LOCK.read_text()
    found = re.search(r"^uv==.*\n(?: +--hash=.*\n)+", text, re.MULTILINE)
    if found is None:
        sys.exit(f"{LOCK} does not lock uv: run make lock.")
    return found[0]


def uv_environment() -> dict[str, str]:
    env = {"UV_SYSTEM_CERTS": "1", **os.environ}
    for line in printed(PYTHON, "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        variable, value = PIP_TO_UV.get(name.rpartition(".")[2]), value.strip("'\"")
        exists = "://" in value or Path(value).exists()
        if variable and exists and not any(known in env for known in (variable, "UV_INDEX_URL")):
            env[variable] = value
    return env


def python() -> None:
    """The virtual environment with the locked packages and the headrace command."""
    make_venv()
    wanted = locked_uv().split()[0].partition("==")[2]
    if f"uv {wanted} " not in printed(VENV / "bin" / "uv", "--version") + " ":
        say(f"installing uv {wanted}")
        (VENV / "uv.txt").write_text(locked_uv())
        run(PYTHON, "-m", "pip", "install", "-q", "--require-hashes", "-r", VENV / "uv.txt")
    say("installing the locked packages into .venv (about 300 MB and a minute, the first time)")
    uv, env = VENV / "bin" / "uv", uv_environment()
    # Compiled once here: where Python may not write, every process would compile it again.
    run(uv, "pip", "sync", "-q", "--compile-bytecode", "--require-hashes", "--python", PYTHON, LOCK, env=env)
    itself = ("--no-deps", "--no-build-isolation", "-e", ROOT)
    run(uv, "pip", "install", "-q", "--python", PYTHON, *itself, env=env)


def java() -> None:
    """Java 17 or 21."""
    find = [PYTHON, "-c", "from headrace.embedded_servers.java import find_java; find_java()"]
    if not works(*find):
        say("Java 17 or 21 is missing")
        for package in JAVA:
            if apt_install(package) and works(*find):
                return
        sys.exit("Java 17 or 21 is needed and could not be installed: install one and set JAVA_HOME to its folder.")


def jars() -> None:
    """The jars of Spark's Kafka connector and of the broker."""
    say("fetching jars that are not in the cache yet")
    run(PYTHON, "-m", "headrace.embedded_servers.jars")


def registry() -> None:
    """The schema registry of the tests and of `up --registry`; a Java that it runs on is among the packages."""
    say("fetching the schema registry (158 MB) if it is not in the cache yet")
    run(PYTHON, "-m", "headrace.embedded_servers.jars", "registry")


def archive() -> None:
    """Class-data archives of the broker and of Spark, which halve their start time."""
    say("archiving the classes of the broker and of Spark for quick starts")
    if not works(PYTHON, "-m", "headrace.embedded_servers.class_archives"):
        say("that did not work: the broker and Spark will start a few seconds slower")


def redis() -> None:
    """A redis-server for the tests; without one they skip."""
    if shutil.which("redis-server"):
        return
    # Debian's server is this very program under another name; the package of that name starts a service too.
    program = shutil.which("redis-check-rdb") or (apt_install("redis-tools") and shutil.which("redis-check-rdb"))
    if program:
        link = VENV / "bin" / "redis-server"
        link.unlink(missing_ok=True)
        link.symlink_to(program)
    else:
        say("redis-server is not to be had here: install it, or the tests that need it are skipped")


def valkey() -> None:
    """A valkey-server for the tests, from Debian 13 on; without one they skip."""
    if not shutil.which("valkey-server") and not apt_install("valkey-server"):
        say("valkey-server is not to be had here: install it, or the tests that need it are skipped")


def postgres() -> None:
    """A PostgreSQL for the tests of sinks, which start it in a folder of their own; without one they skip."""
    here = shutil.which("initdb") or any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not here and not apt_install("postgresql"):
        say("PostgreSQL is not to be had here: install it, or the tests that need it are skipped")


def nats() -> None:
    """A NATS server for the tests of bridges, which start it in a folder of their own; without one they skip."""
    here = shutil.which("nats-server") or Path("/usr/sbin/nats-server").exists()
    if not here and not apt_install("nats-server"):
        say("nats-server is not to be had here: install it, or the tests that need it are skipped")


def clickhouse() -> None:
    """A ClickHouse for the tests of sinks, which start it in a folder of their own; without one they skip."""
    name = "clickhouse-server"
    if shutil.which(name) or shutil.which(name, path=f"/usr/sbin:{VENV / 'bin'}"):
        return
    # The package starts a service: of it the program alone is taken, and what that needs is installed.
    if apt_install("clickhouse-common"):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["apt-get", "-qq", "download", name], cwd=folder, check=False)
            for package in Path(folder).glob("*.deb"):
                if works("dpkg-deb", "-x", package, folder):
                    shutil.copy(Path(folder) / "usr" / "sbin" / name, VENV / "bin" / name)
                    return
    say(f"{name} is not to be had here: install it, or the tests that need it are skipped")


def cassandra() -> None:
    """A Cassandra for the tests of stores, which start it in a folder of their own."""
    say("fetching Cassandra (58 MB) if it is not in the cache yet")
    run(PYTHON, "-m", "headrace.embedded_servers.jars", "cassandra")


def pulsar() -> None:
    """A Pulsar for the tests of bridges, which start it in a folder of their own; too large to download by default."""
    say("fetching Pulsar (245 MB) if it is not in the cache yet")
    run(PYTHON, "-m", "headrace.embedded_servers.jars", "pulsar")


def browser() -> None:
    """A browser for the tests of the dashboard; without one they skip."""
    if not any(map(shutil.which, BROWSERS)) and not apt_install("chromium"):
        say("no browser is to be had here: install chromium, or the tests that need one are skipped")


def wrk() -> None:
    """The load generator of the benchmark."""
    if not shutil.which("wrk") and not apt_install("wrk"):
        say("wrk is not to be had here: install it, or the benchmark leaves out what needs it")


STEPS = {
    step.__name__: step
    for step in (
        python,
        java,
        jars,
        registry,
        archive,
        redis,
        valkey,
        postgres,
        nats,
        clickhouse,
        cassandra,
        pulsar,
        browser,
        wrk,
    )
}

if __name__ == "__main__":
    with Path(__file__).open() as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)  # two makes at once: the second waits
        STEPS[sys.argv[1]]()
