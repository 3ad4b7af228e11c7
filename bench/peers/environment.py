"""Peers: each installed from its lock file in bench/.peers, isolated from Headrace's environment."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.errors import Skipped
from tools.setup import uv_environment

PEERS = Path(__file__).resolve().parents[1] / ".peers"
UV = Path(sys.executable).with_name("uv")
INSTALL_SECONDS = 180.0


@dataclass(frozen=True)
class Environment:
    """The environment of one peer: its name for people, its package, its lock file."""

    name: str
    package: str
    lock: Path

    def set_up(self) -> Path:
        """The folder of its programs; what is there as the lock file says stays as it is."""
        home = PEERS / self.package
        installed = home / "installed.lock"
        if not installed.exists() or installed.read_text() != self.lock.read_text():
            self._uv("venv", "--clear", "--python", sys.executable, str(home))
            python = home / "bin" / "python"
            self._uv("pip", "sync", "--compile-bytecode", "--require-hashes", "--python", str(python), str(self.lock))
            installed.write_text(self.lock.read_text())
        return home / "bin"

    def version(self) -> str:
        """The version the lock file names."""
        (line,) = [line for line in self.lock.read_text().splitlines() if line.startswith(f"{self.package}=")]
        return line.partition("==")[2].split()[0]

    def _uv(self, *command: str) -> None:
        try:
            run = subprocess.run(
                [str(UV), *command, "-q"],
                env=uv_environment(),
                capture_output=True,
                text=True,
                check=False,
                timeout=INSTALL_SECONDS,
            )
        except OSError as error:
            raise Skipped(f"{self.name} cannot be installed: {error}. Run make setup.") from error
        except subprocess.TimeoutExpired as error:
            raise Skipped(f"{self.name} cannot be installed: not within {INSTALL_SECONDS:g} s.") from error
        if run.returncode != 0:
            raise Skipped(f"{self.name} cannot be installed: {' '.join(run.stderr.split())[-500:]}")
