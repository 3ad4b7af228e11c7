"""A server in its own process, so that its memory can be measured: python -m tests.server.served_process FOLDER."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.prediction_app import fraud, predicting


@contextmanager
def served_process(folder: Path) -> Iterator[tuple[int, int]]:
    """The port and the pid of a server of a model; it ends with the block."""
    command = [sys.executable, "-m", "tests.server.served_process", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def resident_bytes(pid: int) -> int:
    """The memory of a process that is in RAM."""
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS:")]
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    with predicting(fraud(Path(sys.argv[1]))) as ask:
        sys.stdout.write(f"{ask.port}\n")
        sys.stdout.flush()
        sys.stdin.read()
