"""What the lake asks of a table's format: which files are a table, and how far its topic has landed.

lake/silver/payments/hr_day=…/*.parquet   the rows, whatever the format
                    /_delta_log           Delta: which of the files count, and the offsets
                    /metadata             Iceberg: the same, once
lake/lake.db                              names the newest of it
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
    """A table that should be in the lake and is not."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"There is no table at {str(folder)!r}. Run `headrace up APP` until its first events have landed, "
            "or give the folder it wrote to with --lake DIR."
        )


class UnreadableTableError(HeadraceError):
    """A table of the lake that asks more of a reader than is known here."""


class LakeFile(NamedTuple):
    """A file of a table: the day its rows are of, where the table has days, and its bytes."""

    path: Path
    day: date | None
    size: int


class TableFormat(ABC):
    """The log of one table: each change is one commit, and whoever reads sees the state before it or after it."""

    metadata_folder: ClassVar[str]  # the folder, within the table's own, that the log is written in

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @classmethod  # noqa: B027 - the default format needs none
    def create_lake(cls, lake: Path) -> None:
        """Mark a new lake as one of this format."""

    @abstractmethod
    def read_schema(self) -> pa.Schema | None:
        """The columns of the table; None where there is no table."""

    @abstractmethod
    def to_storable_schema(self, schema: pa.Schema) -> pa.Schema:
        """Columns as this format keeps them."""

    @abstractmethod
    def ensure_table(self, schema: pa.Schema) -> None:
        """Make the table, in parts by day, or add the columns it lacks."""

    @abstractmethod
    def refresh(self) -> None:
        """Look at the newest state of the table from here on."""

    @abstractmethod
    def committed_position(self, name: str) -> int:
        """What was last committed under a name; −1 where nothing was."""

    @abstractmethod
    def commit_files(self, files: Sequence[Path], positions: Mapping[str, int]) -> None:
        """Add files and move places, both or neither; fails where somebody else has moved them since `refresh`."""

    @abstractmethod
    def append_rows(self, rows: pa.Table) -> None:
        """Add rows to a table without days, and make it where there is none."""

    @abstractmethod
    def list_files(self) -> list[LakeFile]:
        """The files of the table."""

    @property
    @abstractmethod
    def partition_columns(self) -> list[str]:
        """The columns that stand in the paths of files alone."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What no other table has, nor this one once it is made anew."""

    @abstractmethod
    def list_commits(self, since: int) -> list[int]:
        """The numbers of the commits that are still known, from one on."""

    @abstractmethod
    def list_added_files(self, commit: int) -> list[Path]:
        """The files a commit has added rows with; none where it has only written them anew."""

    @abstractmethod
    def delete_days_before(self, first_kept_day: date) -> None:
        """Remove every day before one."""

    @abstractmethod
    def delete_offsets_before(self, first_offsets: Mapping[int, int]) -> None:
        """Remove the rows of partitions whose offset is below one."""

    @abstractmethod
    def compact(self, day: date, small_file_bytes: int) -> None:
        """Make the small files of a day one."""

    @abstractmethod
    def vacuum(self, retention_hours: int) -> None:
        """Delete the files that are no part of the table, and have not been for so long."""


def open_table_format(folder: Path) -> TableFormat:
    """The log of the table in a folder, which is LAKE/LAYER/TABLE."""
    return table_format_entry(folder.parents[1]).load_format()(folder)
