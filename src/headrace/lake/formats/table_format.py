"""The interface of table formats: the files of a table, and the offsets up to which its topic is ingested.

lake/silver/payments/hr_day=…/*.parquet   the rows, in every format
                    /_delta_log           Delta: the current files and the offsets
                    /metadata             Iceberg: the same, in metadata files
lake/lake.db                              Iceberg: the catalogue, which names the newest metadata file
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import ClassVar, NamedTuple

import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.lake.formats.registry import table_format_entry


class LakeTableMissing(HeadraceError):
    """An expected table is missing in the lake."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"There is no table at {str(folder)!r}. Run `headrace up APP` until its first events have landed, "
            "or give the folder it wrote to with --lake DIR."
        )


class UnreadableTableError(HeadraceError):
    """A table of the lake that requires features that this reader lacks."""


class LakeFile(NamedTuple):
    """A file of a table: its path, the day of its rows if the table is partitioned by day, and its size."""

    path: Path
    day: date | None
    size: int


class TableFormat(ABC):
    """The log of one table: each change is one atomic commit."""

    metadata_folder: ClassVar[str]  # the subfolder of the table that contains the log

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @classmethod  # noqa: B027 - the default format needs no marker
    def create_lake(cls, lake: Path) -> None:
        """Mark a new lake with this format."""

    @abstractmethod
    def read_schema(self) -> pa.Schema | None:
        """The schema of the table; None if there is no table."""

    @abstractmethod
    def to_storable_schema(self, schema: pa.Schema) -> pa.Schema:
        """Convert columns to the types that this format stores."""

    @abstractmethod
    def ensure_table(self, schema: pa.Schema) -> None:
        """Create the table, partitioned by day, or add missing columns."""

    @abstractmethod
    def refresh(self) -> None:
        """Read the newest state of the table."""

    @abstractmethod
    def committed_position(self, name: str) -> int:
        """The last committed position of a name; −1 if there is none."""

    @abstractmethod
    def commit_files(self, files: Sequence[Path], positions: Mapping[str, int]) -> None:
        """Add files and move positions atomically; fails if another process has moved them since `refresh`."""

    @abstractmethod
    def append_rows(self, rows: pa.Table) -> None:
        """Add rows to a table that is not partitioned by day; creates a missing table."""

    @abstractmethod
    def list_files(self) -> list[LakeFile]:
        """The files of the table."""

    @property
    @abstractmethod
    def partition_columns(self) -> list[str]:
        """The columns that only the paths of files contain."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """A unique id of the table, which changes if the table is recreated."""

    @abstractmethod
    def list_commits(self, since: int) -> list[int]:
        """The numbers of the commits that the log still has, from one on."""

    @abstractmethod
    def list_added_files(self, commit: int) -> list[Path]:
        """The files with new rows of a commit; none for a commit that only rewrites rows."""

    @abstractmethod
    def delete_days_before(self, first_kept_day: date) -> None:
        """Delete all days before one."""

    @abstractmethod
    def delete_offsets_before(self, first_offsets: Mapping[int, int]) -> None:
        """Delete the rows whose offset is below the given one of their partition."""

    @abstractmethod
    def compact(self, day: date, small_file_bytes: int) -> None:
        """Merge the small files of a day into one."""

    @abstractmethod
    def vacuum(self, retention_hours: int) -> None:
        """Delete files that have not belonged to the table for longer than the retention."""


def open_table_format(folder: Path) -> TableFormat:
    """The log of the table in a folder, which is LAKE/LAYER/TABLE."""
    return table_format_entry(folder.parents[1]).load_format()(folder)
