"""Savepoints: the state of every query of an app, as of one of its batches, to restore later.

    checkpoints/payments/gate           up to batch 41 ─┐
    checkpoints/payments/tiles-1        up to batch 7 ──┼──▶ savepoints/NAME, with their declarations
    checkpoints/spend/operation-1       up to batch 380 ┘

Queries need not be at the same time. Between two of them is a topic, which is a log: each continues from its own
offsets, reads what it has not read, and skips repeated records by offset or id. Files of a checkpoint are written
once and never changed, so they are linked, not copied, while the app runs.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.spark.checkpoints.checkpoint_files import list_batch_ids, write_atomically

FOLDER, MANIFEST = "savepoints", "savepoint.json"
DEFINITION_FOLDERS = ("generations", "operations")  # the declarations of queries
BATCH_LOGS = ("offsets", "commits")
RETAINED_BATCHES = 8  # Spark keeps the files of ten batches: within this many none of ours is deleted
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SavepointError(HeadraceError):
    """A savepoint that cannot be created or restored."""


@dataclass(frozen=True)
class Savepoint:
    """One savepoint: when it was created, the last batch of each query in it, and when that was committed.

    `missing` are the queries of the app without a commit: they would start with the earliest record.
    """

    name: str
    made_us: int
    batches: dict[str, int]
    committed_us: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def create_savepoint(state_folder: Path, name: str, expected_queries: Collection[str] = ()) -> Savepoint:
    """Save what every query has committed, whether it runs or is down; `expected_queries` are those of the app.

    Raises where none has committed a batch.
    """
    if not any(
        _last_committed_batch(state_folder / "checkpoints" / query) >= 0 for query in _list_queries(state_folder)
    ):
        raise SavepointError(
            f"There is nothing to keep in {str(state_folder)!r}: no query has committed a batch there. "
            "Start the app with `headrace up` and wait for its first checkpoint, or name the app's own --state."
        )
    return _write_savepoint(state_folder, name, expected_queries)


def _write_savepoint(state_folder: Path, name: str, expected_queries: Collection[str] = ()) -> Savepoint:
    folder = state_folder / FOLDER / name
    if not _NAME.fullmatch(name) or name == "ls":
        raise SavepointError(f"{name!r} is no name for a savepoint. Write up to 100 letters, digits, dots, hyphens.")
    if (folder / MANIFEST).exists():
        raise SavepointError(f"There is a savepoint {name!r} already. Give this one another name.")
    shutil.rmtree(folder, ignore_errors=True)  # an unfinished one
    for folder_name in DEFINITION_FOLDERS:
        if (state_folder / folder_name).is_dir():
            shutil.copytree(state_folder / folder_name, folder / folder_name)
    queries = list(_list_queries(state_folder))
    batches = {
        query: _link_checkpoint(state_folder / "checkpoints" / query, folder / "checkpoints" / query)
        for query in queries
    }
    committed_us = {query: _committed_us(folder / "checkpoints" / query, batch) for query, batch in batches.items()}
    missing = sorted(query for query in expected_queries if batches.get(query, -1) < 0)
    savepoint = Savepoint(name, time.time_ns() // 1000, batches, committed_us, missing)
    write_atomically(folder / MANIFEST, json.dumps(asdict(savepoint), indent=2))
    return savepoint


def list_savepoints(state_folder: Path) -> list[Savepoint]:
    """All savepoints, the oldest first."""
    files = (state_folder / FOLDER).glob(f"*/{MANIFEST}")
    return sorted(
        (Savepoint(**json.loads(file.read_text())) for file in files), key=lambda savepoint: savepoint.made_us
    )


def savepoint_folder(state_folder: Path, name: str) -> Path:
    """The folder of a savepoint; its declarations have the layout of a state folder."""
    folder = state_folder / FOLDER / name
    if not (folder / MANIFEST).exists():
        known_names = ", ".join(savepoint.name for savepoint in list_savepoints(state_folder)) or "none"
        raise SavepointError(f"There is no savepoint {name!r} in {str(state_folder)!r}. There are: {known_names}.")
    return folder


def restore_savepoint(state_folder: Path, name: str) -> Savepoint:
    """Restore a savepoint; first creates one of the current state, and returns that."""
    folder = savepoint_folder(state_folder, name)
    backup = _write_savepoint(state_folder, f"before-{name}-{time.time_ns() // 1_000_000}")
    for query in _list_queries(state_folder):
        shutil.rmtree(state_folder / "checkpoints" / query)
    for folder_name in DEFINITION_FOLDERS:
        shutil.rmtree(state_folder / folder_name, ignore_errors=True)
        if (folder / folder_name).is_dir():
            shutil.copytree(folder / folder_name, state_folder / folder_name)
    for query in _list_queries(folder):
        _link_checkpoint(folder / "checkpoints" / query, state_folder / "checkpoints" / query)
    return backup


def _list_queries(state_folder: Path) -> Iterator[str]:
    """The queries of the streaming part that have a checkpoint, as STREAM/QUERY."""
    root = state_folder / "checkpoints"
    for commits in sorted(root.glob("*/*/commits")):
        if commits.is_dir():
            yield str(commits.parent.relative_to(root))


def _last_committed_batch(checkpoint: Path) -> int:
    return max(list_batch_ids(checkpoint / "commits"), default=-1)


def _committed_us(checkpoint: Path, batch: int) -> int:
    """When a batch was committed; 0 where none was."""
    commit_file = checkpoint / "commits" / str(batch)
    return commit_file.stat().st_mtime_ns // 1000 if commit_file.exists() else 0


def _link_checkpoint(checkpoint: Path, target: Path) -> int:
    """Link the files of committed batches; returns the number of the last, or −1.

    Where too many batches have been committed meanwhile, only new files are linked again, which takes less time.
    """
    while True:
        last_batch = _last_committed_batch(checkpoint)
        for log in BATCH_LOGS:
            (target / log).mkdir(parents=True, exist_ok=True)
            for batch in (batch for batch in list_batch_ids(checkpoint / log) if batch <= last_batch):
                _link_file(checkpoint / log / str(batch), target / log / str(batch))
        for file in _other_files(checkpoint):
            _link_file(checkpoint / file, target / file)
        if _last_committed_batch(checkpoint) - last_batch <= RETAINED_BATCHES:
            _require_complete(checkpoint, target, last_batch)
            return last_batch


def _require_complete(checkpoint: Path, target: Path, last_batch: int) -> None:
    """Reject a checkpoint that a query could not continue from."""
    required_files = [] if last_batch < 0 else ["metadata", f"offsets/{last_batch}", f"commits/{last_batch}"]
    for file in required_files:
        if not (target / file).exists():
            raise SavepointError(
                f"{checkpoint} has committed batch {last_batch} and no {file}: its checkpoint is broken, and no "
                f"savepoint of "
                "it would work. Go back to an earlier savepoint, or rebuild the stream with --rebuild."
            )


def _other_files(checkpoint: Path) -> Iterator[Path]:
    """Everything but the logs of batches and temporary files."""
    for folder, _, names in os.walk(checkpoint):
        relative = Path(folder).relative_to(checkpoint)
        if relative.parts[:1] not in {(log,) for log in BATCH_LOGS}:
            yield from (relative / name for name in names if not name.startswith("."))


def _link_file(file: Path, target: Path) -> None:
    if target.exists():
        return  # linked before; files of a checkpoint never change
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except FileNotFoundError:
        return  # an old one, which Spark has just deleted
    except OSError:  # another disk
        shutil.copy2(file, target)
