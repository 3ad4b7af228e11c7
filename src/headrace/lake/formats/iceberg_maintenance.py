"""Maintenance of Iceberg tables that pyiceberg lacks: compaction, snapshot expiry, and deletion of orphan files."""

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

from headrace.lake.formats.iceberg_files import data_file_path
from headrace.lake.lake_table import UNFINISHED_FOLDER

MAX_SNAPSHOTS = 100  # every commit rewrites all of them
ROW_GROUP_BYTES = 32 << 20  # the size of rows in memory, and of a row group


def group_files(files: Iterable[DataFile], target_bytes: int) -> Iterator[list[DataFile]]:
    """Group files by total size; a single remaining file is in no group."""
    group: list[DataFile] = []
    for file in files:
        group.append(file)
        if sum(grouped_file.file_size_in_bytes for grouped_file in group) >= target_bytes:
            yield group
            group = []
    if len(group) > 1:
        yield group


def compact_files(files: Sequence[Path], table_schema: pa.Schema) -> Path:
    """Write the rows of several files of one day to a new file in their folder."""
    target = files[0].with_name(f"{uuid4().hex}.parquet")
    column_names = {name for file in files for name in pq.read_schema(file).names}
    schema = pa.schema([field for field in table_schema if field.name in column_names])
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for table in _read_tables(ds.dataset([str(file) for file in files], schema, format="parquet")):
            writer.write_table(table)
    return target


def _read_tables(dataset: ds.Dataset) -> Iterator[pa.Table]:
    """All rows in the order of their files, in tables of a limited size."""
    pending: list[pa.RecordBatch] = []
    for batch in dataset.to_batches():
        pending.append(batch)
        if sum(pending_batch.nbytes for pending_batch in pending) > ROW_GROUP_BYTES:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


def snapshot_expiry_time(table: Table, retention_hours: int) -> datetime | None:
    """The time of the oldest snapshot to keep, by age and number; None to keep all."""
    oldest_ms = int((time.time() - retention_hours * 3600) * 1000)
    times_ms = sorted(snapshot.timestamp_ms for snapshot in table.snapshots())
    first_ms = max([oldest_ms, *times_ms[-MAX_SNAPSHOTS:][:1]])
    referenced_ids = {ref.snapshot_id for ref in table.refs().values()}
    expired = [
        candidate
        for candidate in table.snapshots()
        if candidate.timestamp_ms < first_ms and candidate.snapshot_id not in referenced_ids
    ]
    return datetime.fromtimestamp(first_ms / 1000, UTC) if expired else None


def find_orphan_files(table: Table, folder: Path, retention_hours: int) -> Iterator[Path]:
    """Files in a table's folder that no snapshot references and that are older than the retention."""
    modified_before = time.time() - retention_hours * 3600
    old_files = [
        file for file in folder.glob("*/**/*") if UNFINISHED_FOLDER not in file.parts and _is_old(file, modified_before)
    ]
    if old_files:
        referenced = _referenced_files(table)
        yield from (file for file in old_files if file not in referenced)


def _is_old(file: Path, modified_before: float) -> bool:
    try:
        return file.is_file() and file.stat().st_mtime < modified_before
    except FileNotFoundError:  # metadata that a concurrent commit has just deleted
        return False


def _referenced_files(table: Table) -> set[Path]:
    """All files that the snapshots reference, and the table's metadata files."""
    manifests: dict[str, ManifestFile] = {}
    metadata_paths = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
    for snapshot in table.snapshots():
        metadata_paths.append(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    data_paths = {
        data_file_path(entry.data_file)
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    return data_paths | {Path(name.removeprefix("file://")) for name in (*metadata_paths, *manifests)}
