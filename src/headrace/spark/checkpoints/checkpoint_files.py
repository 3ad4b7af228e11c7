"""Reads and prepares the checkpoint of a query: its offsets, batches and state files."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from headrace.kafka.record import Partition

STATE_SCHEMA_FOLDER = "_stateSchema"
NO_OFFSETS = "-"  # written by Spark for a source that a batch has not reached


def committed_partition_offsets(checkpoint: Path) -> dict[Partition, int]:
    """The next offset of each partition of every topic after the last committed batch; empty before the first."""
    batch_ids = list_batch_ids(checkpoint / "commits")
    if not batch_ids:
        return {}
    source_lines = (checkpoint / "offsets" / str(max(batch_ids))).read_text().splitlines()[2:]
    topic_offsets = [item for line in source_lines if line != NO_OFFSETS for item in json.loads(line).items()]
    return {
        Partition(topic, int(number)): int(offset)
        for topic, partition_offsets in topic_offsets
        for number, offset in partition_offsets.items()
    }


def committed_offsets(checkpoint: Path) -> dict[int, int]:
    """The next offset of each partition of the one topic that a query reads; empty before its first commit."""
    return {partition.number: offset for partition, offset in committed_partition_offsets(checkpoint).items()}


def has_committed_batch(checkpoint: Path) -> bool:
    """Whether a query has committed a batch here."""
    return bool(list_batch_ids(checkpoint / "commits"))


def plan_first_batch(checkpoint: Path, topic: str, end_offsets: Sequence[int], metadata: Mapping[str, object]) -> None:
    """Set the end offsets of a new query's first batch: Spark runs a batch that it finds planned.

    `metadata` is what Spark stores with a batch: times, and the settings its state depends on.
    """
    if list_batch_ids(checkpoint / "offsets"):
        return
    offsets = {topic: {str(number): end for number, end in enumerate(end_offsets)}}
    write_atomically(checkpoint / "metadata", json.dumps({"id": str(uuid4())}))
    write_atomically(checkpoint / "offsets" / "0", "\n".join(["v1", json.dumps(metadata), json.dumps(offsets)]))


def write_atomically(file: Path, text: str) -> None:
    """Write a file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temp_file = file.with_name(f".{file.name}.draft")
    temp_file.write_text(text)
    temp_file.replace(file)


def prepare_checkpoint(checkpoint: Path) -> None:
    """Prepare a checkpoint for a query to continue from."""
    discard_unfinished_state(checkpoint)
    relocate_state_schemas(checkpoint)


def relocate_state_schemas(checkpoint: Path) -> None:
    """Make the metadata of stateful operators name the schema files of this checkpoint.

    Spark writes absolute paths: in a state folder that was moved, or unpacked elsewhere, they would name files of the
    old location, and no operator would start.
    """
    for metadata_file in checkpoint.glob("state/*/_metadata/v2/*"):
        if metadata_file.name.isdigit():
            _relocate_schema_paths(metadata_file, metadata_file.parents[2])


def _relocate_schema_paths(metadata_file: Path, operator_folder: Path) -> None:
    version, text = metadata_file.read_text().split("\n", 1)
    metadata, is_changed = json.loads(text), False
    for store in metadata["stateStoreInfo"]:
        paths = store.get("stateSchemaFilePaths") or []
        local_paths = [_schema_path_in(path, operator_folder) for path in paths]
        if local_paths != paths:
            store["stateSchemaFilePaths"], is_changed = local_paths, True
    if is_changed:
        # The old checksum is removed first: a file without one is read unchecked.
        metadata_file.with_name(f".{metadata_file.name}.crc").unlink(missing_ok=True)
        write_atomically(metadata_file, f"{version}\n{json.dumps(metadata)}")


def _schema_path_in(path: str, operator_folder: Path) -> str:
    """The current path of an operator's schema file, below the operator's own folder, as Spark writes it."""
    *_, relative_path = path.rpartition(f"/{STATE_SCHEMA_FOLDER}/")
    return f"file:{operator_folder}/{STATE_SCHEMA_FOLDER}/{relative_path}"


def discard_unfinished_state(checkpoint: Path) -> None:
    """Remove the state of a first batch that never committed: Spark refuses to start where a killed query left some.

    A batch is a file named by its number; a kill may leave its temporary file without it.
    """
    if not has_committed_batch(checkpoint):
        shutil.rmtree(checkpoint / "state", ignore_errors=True)
        for log in (checkpoint / "commits", checkpoint / "offsets"):
            if not list_batch_ids(log):
                shutil.rmtree(log, ignore_errors=True)


def list_batch_ids(folder: Path) -> list[int]:
    """The numbers of the batches in a log of a checkpoint."""
    return [int(file.name) for file in folder.glob("*") if file.name.isdigit()] if folder.is_dir() else []


def query_lag(checkpoint: Path, start_offsets: Mapping[Partition, int], end_offsets: Mapping[Partition, int]) -> int:
    """How many records a query has not read."""
    committed = committed_partition_offsets(checkpoint)
    return sum(
        max(0, end_offsets[partition] - max(committed.get(partition, 0), start_offsets[partition]))
        for partition in end_offsets
    )


def is_before_log_start(checkpoint: Path, start_offsets: Mapping[Partition, int]) -> bool:
    """Whether a query's position is before its topics' start: retention, or a deletion, removed its next records."""
    return any(
        offset < start_offsets.get(partition, 0)
        for partition, offset in committed_partition_offsets(checkpoint).items()
    )


def committed_watermark_us(checkpoint: Path) -> int:
    """The watermark of the last committed batch; 0 before there is one."""
    batch_ids = list_batch_ids(checkpoint / "commits")
    if not batch_ids:
        return 0
    metadata = (checkpoint / "offsets" / str(max(batch_ids))).read_text().splitlines()[1]
    return int(json.loads(metadata)["batchWatermarkMs"]) * 1000
