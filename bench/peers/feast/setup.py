"""Set Feast up in bench/.peers/feast, apart from everything of ours: python -m bench.peers.feast.setup."""

import subprocess
import sys
from pathlib import Path

from bench.errors import Skipped
from tools.setup import uv_environment

LOCK = Path(__file__).with_name("requirements.lock")
HOME = Path(__file__).resolve().parents[2] / ".peers" / "feast"
INSTALLED = HOME / "installed.lock"
UV = Path(sys.executable).with_name("uv")


def set_up() -> Path:
    """The folder of Feast's programs; what is there as the lock file says stays as it is."""
    if not INSTALLED.exists() or INSTALLED.read_text() != LOCK.read_text():
        _uv("venv", "--clear", "--python", sys.executable, str(HOME))
        python = HOME / "bin" / "python"
        _uv("pip", "sync", "--compile-bytecode", "--require-hashes", "--python", str(python), str(LOCK))
        INSTALLED.write_text(LOCK.read_text())
    return HOME / "bin"


def version() -> str:
    """The version the lock file names."""
    (line,) = [line for line in LOCK.read_text().splitlines() if line.startswith("feast")]
    return line.partition("==")[2].split()[0]


def _uv(*command: str) -> None:
    try:
        run = subprocess.run(
            [str(UV), *command, "-q"], env=uv_environment(), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise Skipped(f"Feast cannot be installed: {error}. Run make setup.") from error
    if run.returncode != 0:
        raise Skipped(f"Feast cannot be installed: {' '.join(run.stderr.split())[-500:]}")


if __name__ == "__main__":
    print(set_up())
