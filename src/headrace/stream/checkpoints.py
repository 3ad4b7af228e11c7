"""Where a query stands in its source, read from its checkpoint."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from headrace.log.records import Partition

SCHEMAS = "_stateSchema"
NOTHING_YET = "-"  # what Spark notes of a source that a batch has not come to


def committed_places(checkpoint: Path) -> dict[Partition, int]:
    """The next offset of each partition of every topic after the last committed batch; empty before the first."""
    batches = batches_in(checkpoint / "commits")
    if not batches:
        return {}
    sources = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[2:]
    topics = [item for source in sources if source != NOTHING_YET for item in json.loads(source).items()]
    return {Partition(topic, int(number)): int(at) for topic, numbers in topics for number, at in numbers.items()}


def committed_offsets(checkpoint: Path) -> dict[int, int]:
    """The next offset of each partition of the one topic that a query reads; empty before its first commit."""
    return {place.number: offset for place, offset in committed_places(checkpoint).items()}


def is_begun(checkpoint: Path) -> bool:
    """Whether a query has committed anything here."""
    return bool(batches_in(checkpoint / "commits"))


def plan_first_batch(checkpoint: Path, topic: str, ends: Sequence[int], metadata: Mapping[str, object]) -> None:
    """Let the first batch of a new query end at these offsets of its topic: Spark runs a batch it finds planned.

    `metadata` is what Spark notes beside a batch: times, and the settings its state depends on.
    """
    if batches_in(checkpoint / "offsets"):
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


def prepare(checkpoint: Path) -> None:
    """Make what is kept here ready for a query to go on from."""
    discard_unfinished_state(checkpoint)
    point_state_schemas_here(checkpoint)


def point_state_schemas_here(checkpoint: Path) -> None:
    """Let the metadata of stateful operators name the schema files of this checkpoint.

    Spark writes their absolute paths: a state folder that was moved, or unpacked elsewhere, would name files of its
    old place, and no operator would start.
    """
    for metadata in checkpoint.glob("state/*/_metadata/v2/*"):
        if metadata.name.isdigit():
            _point_state_schemas(metadata, metadata.parents[2])


def _point_state_schemas(metadata: Path, operator: Path) -> None:
    version, text = metadata.read_text().split("\n", 1)
    described, is_moved = json.loads(text), False
    for store in described["stateStoreInfo"]:
        paths = store.get("stateSchemaFilePaths") or []
        here = [_in_operator(path, operator) for path in paths]
        if here != paths:
            store["stateSchemaFilePaths"], is_moved = here, True
    if is_moved:
        # Without its old checksum first: a file that has none is read as it is.
        metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)
        write_whole(metadata, f"{version}\n{json.dumps(described)}")


def _in_operator(path: str, operator: Path) -> str:
    """Where a schema file of an operator is: below the operator's own folder, as Spark writes a path."""
    *_, below = path.rpartition(f"/{SCHEMAS}/")
    return f"file:{operator}/{SCHEMAS}/{below}"


def discard_unfinished_state(checkpoint: Path) -> None:
    """Remove what a first batch left that never committed: Spark refuses to begin where a killed query left some.

    A batch is a file named by its number; a kill may leave the draft of one beside none.
    """
    if not is_begun(checkpoint):
        shutil.rmtree(checkpoint / "state", ignore_errors=True)
        for log in (checkpoint / "commits", checkpoint / "offsets"):
            if not batches_in(log):
                shutil.rmtree(log, ignore_errors=True)


def batches_in(folder: Path) -> list[int]:
    """The numbers of the batches that a log of a checkpoint has."""
    return [int(file.name) for file in folder.glob("*") if file.name.isdigit()] if folder.is_dir() else []


def lag(checkpoint: Path, begin: Mapping[Partition, int], end: Mapping[Partition, int]) -> int:
    """How many records a query has before it."""
    done = committed_places(checkpoint)
    return sum(max(0, end[place] - max(done.get(place, 0), begin[place])) for place in end)


def is_before(checkpoint: Path, begin: Mapping[Partition, int]) -> bool:
    """Whether a query has its place before its topics begin: retention, or who let go of them, took what was there."""
    return any(offset < begin.get(place, 0) for place, offset in committed_places(checkpoint).items())


def committed_watermark_us(checkpoint: Path) -> int:
    """The watermark that the last committed batch worked with; 0 before there is one."""
    batches = batches_in(checkpoint / "commits")
    if not batches:
        return 0
    metadata = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[1]
    return int(json.loads(metadata)["batchWatermarkMs"]) * 1000
