"""Trains the model of the demo before the server starts: `headrace train` on hours of generated history."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from history import History, write_history
from payments import Timeline

from headrace.models.versions.version_store import VersionStore

HOURS, RATE = 2, 2.5
COUNT = int(HOURS * 3600 * RATE)


class TrainingFailed(Exception):
    """`headrace train` ended with an error; its last lines say why."""


def train_once(app: Path, model: str, state: Path, seed: int, say: Callable[[str], None]) -> None:
    """Train the model if the state has no champion yet, and report its quality."""
    version = VersionStore(state, model).load_roles().champion
    if version is not None:
        say(f"Using {model} version {version} of an earlier run")
        return
    say(f"Training {model} on {HOURS} hours of generated history")
    began = time.monotonic()
    # Another seed than the demo's: a model must not be evaluated on the payments it was trained on.
    timeline = Timeline(seed + 1, time.time_ns() // 1000 - HOURS * 3_600_000_000, RATE)
    history = write_history(state / "history", timeline, COUNT)
    say(f"  {_train(app, model, history, state)}; took {time.monotonic() - began:.0f} s")


def _train(app: Path, model: str, history: History, state: Path) -> str:
    command = [
        str(Path(sys.executable).with_name("headrace")), "train", str(app), model,
        "--spine", str(history.spine), "--lake", str(history.lake), "--state", str(state),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise TrainingFailed(f"headrace train ended with exit code {run.returncode}:\n{run.stderr[-2000:]}")
    return run.stdout.strip().splitlines()[-1]
