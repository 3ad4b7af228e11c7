"""Care of Iceberg tables as far as pyiceberg leaves it to others: files made one, snapshots and files let go."""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table

from headrace.lake.iceberg_files import path_of
from headrace.lake.table import UNFINISHED

SNAPSHOTS_AT_MOST = 100  # each is written again with every commit
GROUP_BYTES = 32 << 20  # of rows in memory, and of a row group


def grouped(files: Iterable[DataFile], most_bytes: int) -> Iterator[list[DataFile]]:
    """Files by the handful, each about so large together; one alone is left as it is."""
    group: list[DataFile] = []
    for file in files:
        group.append(file)
        if sum(one.file_size_in_bytes for one in group) >= most_bytes:
            yield group
            group = []
    if len(group) > 1:
        yield group


def compacted(files: Sequence[Path], columns: pa.Schema) -> Path:
    """The rows of some files of one day, in a new file beside them."""
    target = files[0].with_name(f"{uuid4().hex}.parquet")
    found = {name for file in files for name in pq.read_schema(file).names}
    schema = pa.schema([field for field in columns if field.name in found])
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for table in _tables(ds.dataset([str(file) for file in files], schema, format="parquet")):
            writer.write_table(table)
    return target


def _tables(source: ds.Dataset) -> Iterator[pa.Table]:
    """All rows in the order of their files, as many at once as memory is meant for."""
    held: list[pa.RecordBatch] = []
    for batch in source.to_batches():
        held.append(batch)
        if sum(one.nbytes for one in held) > GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def first_snapshot(table: Table, kept_hours: int) -> datetime | None:
    """When the first snapshot was made that is neither too old nor one too many; None where all are kept."""
    oldest_ms = int((time.time() - kept_hours * 3600) * 1000)
    times_ms = sorted(snapshot.timestamp_ms for snapshot in table.snapshots())
    first_ms = max([oldest_ms, *times_ms[-SNAPSHOTS_AT_MOST:][:1]])
    branches = {ref.snapshot_id for ref in table.refs().values()}
    old = [one for one in table.snapshots() if one.timestamp_ms < first_ms and one.snapshot_id not in branches]
    return datetime.fromtimestamp(first_ms / 1000, UTC) if old else None


def unneeded(table: Table, folder: Path, kept_hours: int) -> Iterator[Path]:
    """Files in a table's folder that no snapshot names, and that nobody has touched for so long."""
    before = time.time() - kept_hours * 3600
    old = [file for file in folder.glob("*/**/*") if UNFINISHED not in file.parts and _is_old(file, before)]
    if old:
        needed = _needed(table)
        yield from (file for file in old if file not in needed)


def _is_old(file: Path, before: float) -> bool:
    try:
        return file.is_file() and file.stat().st_mtime < before
    except FileNotFoundError:  # metadata that a commit has just let go of
        return False


def _needed(table: Table) -> set[Path]:
    """Every file that a snapshot names, and what names the snapshots."""
    manifests: dict[str, ManifestFile] = {}
    named = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
    for snapshot in table.snapshots():
        named.append(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    data = {
        path_of(entry.data_file) for manifest in manifests.values() for entry in manifest.fetch_manifest_entry(table.io)
    }
    return data | {Path(name.removeprefix("file://")) for name in (*named, *manifests)}
