"""Where a query stands in its source, read from its checkpoint."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path


def committed_offsets(checkpoint: Path) -> dict[int, int]:
    """The next offset of each partition after the last committed batch; empty before the first."""
    batches = _batches(checkpoint / "commits")
    if not batches:
        return {}
    source = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[-1]
    (partitions,) = json.loads(source).values()
    return {int(partition): int(offset) for partition, offset in partitions.items()}


def discard_unfinished_state(checkpoint: Path) -> None:
    """Remove what a first batch left that never committed: Spark refuses to begin where a killed query left some.

    A batch is a file named by its number; a kill may leave the draft of one beside none.
    """
    if not _batches(checkpoint / "commits"):
        shutil.rmtree(checkpoint / "state", ignore_errors=True)
        for log in (checkpoint / "commits", checkpoint / "offsets"):
            if not _batches(log):
                shutil.rmtree(log, ignore_errors=True)


def _batches(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.glob("*") if file.name.isdigit()] if folder.is_dir() else []


def lag(checkpoint: Path, begin: Mapping[int, int], end: Mapping[int, int]) -> int:
    """How many records a query has before it."""
    done = committed_offsets(checkpoint)
    return sum(max(0, end[number] - max(done.get(number, 0), begin[number])) for number in end)
