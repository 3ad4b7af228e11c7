"""Where a query stands in its source, read from its checkpoint."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4


def committed_offsets(checkpoint: Path) -> dict[int, int]:
    """The next offset of each partition after the last committed batch; empty before the first."""
    batches = _batches(checkpoint / "commits")
    if not batches:
        return {}
    source = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[-1]
    (partitions,) = json.loads(source).values()
    return {int(partition): int(offset) for partition, offset in partitions.items()}


def is_begun(checkpoint: Path) -> bool:
    """Whether a query has committed anything here."""
    return bool(_batches(checkpoint / "commits"))


def plan_first_batch(checkpoint: Path, topic: str, ends: Sequence[int], metadata: Mapping[str, object]) -> None:
    """Let the first batch of a new query end at these offsets of its topic: Spark runs a batch it finds planned.

    `metadata` is what Spark notes beside a batch: times, and the settings its state depends on.
    """
    if _batches(checkpoint / "offsets"):
        return
    offsets = {topic: {str(number): end for number, end in enumerate(ends)}}
    write_whole(checkpoint / "metadata", json.dumps({"id": str(uuid4())}))
    write_whole(checkpoint / "offsets" / "0", "\n".join(["v1", json.dumps(metadata), json.dumps(offsets)]))


def write_whole(file: Path, text: str) -> None:
    """Write a file that is there whole, or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.draft")
    draft.write_text(text)
    draft.replace(file)


def discard_unfinished_state(checkpoint: Path) -> None:
    """Remove what a first batch left that never committed: Spark refuses to begin where a killed query left some.

    A batch is a file named by its number; a kill may leave the draft of one beside none.
    """
    if not is_begun(checkpoint):
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
