"""Savepoints: what every query of an app keeps, as it was at one of its batches, to go back to.

    checkpoints/payments/gate           up to batch 41 ─┐
    checkpoints/payments/tiles-1        up to batch 7 ──┼──▶ savepoints/NAME, beside what they were declared as
    checkpoints/spend/operation-1       up to batch 380 ┘

Queries need not stand at the same moment. Between two of them there is a topic, which is a log: each goes on from its
own offsets, reads what it has not read, and passes over by place or id what it has. Files of a checkpoint are written
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
from headrace.stream.checkpoints import batches_in, write_whole

FOLDER, MANIFEST = "savepoints", "savepoint.json"
DECLARED = ("generations", "operations")  # what queries were declared as
BATCH_LOGS = ("offsets", "commits")
BATCHES_KEPT = 8  # Spark keeps the files of ten: while fewer have passed, none of ours was taken away
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class BadSavepoint(HeadraceError):
    """A savepoint that cannot be made or gone back to."""


@dataclass(frozen=True)
class Savepoint:
    """One savepoint: when it was made, the last batch of each query in it, and when that was committed.

    `missing` are the queries of the app that had committed nothing yet: they would begin with the earliest record.
    """

    name: str
    made_us: int
    batches: dict[str, int]
    committed_us: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def make(state: Path, name: str, expected: Collection[str] = ()) -> Savepoint:
    """Keep what every query has committed, whether it runs or is down; `expected` are the queries of the app.

    Refuses where none has committed anything.
    """
    if not any(_last_batch(state / "checkpoints" / query) >= 0 for query in _queries(state)):
        raise BadSavepoint(
            f"There is nothing to keep in {str(state)!r}: no query has committed a batch there. "
            "Start the app with `headrace up` and wait for its first checkpoint, or name the app's own --state."
        )
    return _make(state, name, expected)


def _make(state: Path, name: str, expected: Collection[str] = ()) -> Savepoint:
    folder = state / FOLDER / name
    if not _NAME.fullmatch(name) or name == "ls":
        raise BadSavepoint(f"{name!r} is no name for a savepoint. Write up to 100 letters, digits, dots, hyphens.")
    if (folder / MANIFEST).exists():
        raise BadSavepoint(f"There is a savepoint {name!r} already. Give this one another name.")
    shutil.rmtree(folder, ignore_errors=True)  # one that was not finished
    for declared in DECLARED:
        if (state / declared).is_dir():
            shutil.copytree(state / declared, folder / declared)
    queries = list(_queries(state))
    batches = {query: _keep(state / "checkpoints" / query, folder / "checkpoints" / query) for query in queries}
    committed_us = {query: _committed_us(folder / "checkpoints" / query, batch) for query, batch in batches.items()}
    missing = sorted(query for query in expected if batches.get(query, -1) < 0)
    made = Savepoint(name, time.time_ns() // 1000, batches, committed_us, missing)
    write_whole(folder / MANIFEST, json.dumps(asdict(made), indent=2))
    return made


def savepoints(state: Path) -> list[Savepoint]:
    """All there are, the oldest first."""
    files = (state / FOLDER).glob(f"*/{MANIFEST}")
    return sorted((Savepoint(**json.loads(file.read_text())) for file in files), key=lambda one: one.made_us)


def folder_of(state: Path, name: str) -> Path:
    """Where a savepoint is, which has what queries were declared as in the places of a state folder."""
    folder = state / FOLDER / name
    if not (folder / MANIFEST).exists():
        known = ", ".join(one.name for one in savepoints(state)) or "none"
        raise BadSavepoint(f"There is no savepoint {name!r} in {str(state)!r}. There are: {known}.")
    return folder


def restore(state: Path, name: str) -> Savepoint:
    """Go back to a savepoint; what was kept until now is a savepoint as well, which is given."""
    folder = folder_of(state, name)
    before = _make(state, f"before-{name}-{time.time_ns() // 1_000_000}")
    for query in _queries(state):
        shutil.rmtree(state / "checkpoints" / query)
    for declared in DECLARED:
        shutil.rmtree(state / declared, ignore_errors=True)
        if (folder / declared).is_dir():
            shutil.copytree(folder / declared, state / declared)
    for query in _queries(folder):
        _keep(folder / "checkpoints" / query, state / "checkpoints" / query)
    return before


def _queries(state: Path) -> Iterator[str]:
    """The queries of the streaming part that have a checkpoint, as STREAM/QUERY."""
    root = state / "checkpoints"
    for commits in sorted(root.glob("*/*/commits")):
        if commits.is_dir():
            yield str(commits.parent.relative_to(root))


def _last_batch(checkpoint: Path) -> int:
    return max(batches_in(checkpoint / "commits"), default=-1)


def _committed_us(checkpoint: Path, batch: int) -> int:
    """When a batch was committed; 0 where none was."""
    commit = checkpoint / "commits" / str(batch)
    return commit.stat().st_mtime_ns // 1000 if commit.exists() else 0


def _keep(checkpoint: Path, into: Path) -> int:
    """Link what belongs to the batches that are done; the number of the last, or −1.

    Where too many batches have passed meanwhile, only what is new is linked again: that takes less time each time.
    """
    while True:
        last = _last_batch(checkpoint)
        for log in BATCH_LOGS:
            (into / log).mkdir(parents=True, exist_ok=True)
            for batch in (batch for batch in batches_in(checkpoint / log) if batch <= last):
                _link(checkpoint / log / str(batch), into / log / str(batch))
        for file in _others(checkpoint):
            _link(checkpoint / file, into / file)
        if _last_batch(checkpoint) - last <= BATCHES_KEPT:
            _require_whole(checkpoint, into, last)
            return last


def _require_whole(checkpoint: Path, into: Path, last: int) -> None:
    """Refuse what a query could not go on from."""
    needed = [] if last < 0 else ["metadata", f"offsets/{last}", f"commits/{last}"]
    for file in needed:
        if not (into / file).exists():
            raise BadSavepoint(
                f"{checkpoint} has committed batch {last} and no {file}: its checkpoint is broken, and no savepoint of "
                "it would work. Go back to an earlier savepoint, or rebuild the stream with --rebuild."
            )


def _others(checkpoint: Path) -> Iterator[Path]:
    """Everything but the logs of batches, and what is just being written."""
    for folder, _, names in os.walk(checkpoint):
        relative = Path(folder).relative_to(checkpoint)
        if relative.parts[:1] not in {(log,) for log in BATCH_LOGS}:
            yield from (relative / name for name in names if not name.startswith("."))


def _link(file: Path, into: Path) -> None:
    if into.exists():
        return  # linked before; files of a checkpoint never change
    into.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, into)
    except FileNotFoundError:
        return  # an old one, which Spark has just taken away
    except OSError:  # another disk
        shutil.copy2(file, into)
