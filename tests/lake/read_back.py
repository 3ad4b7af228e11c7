"""Reads the tables of a lake with the library of their format."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.table import Table

from headrace.lake.formats.iceberg_catalog import open_catalog
from headrace.lake.formats.registry import CATALOG_FILE, detect_format


def read_back(folder: Path) -> pa.Table:
    """Every row of the table in a folder."""
    if detect_format(folder.parents[1]) == "iceberg":
        return iceberg_table(folder).scan().to_arrow()
    return DeltaTable(folder).to_pyarrow_table()


def iceberg_table(folder: Path) -> Table:
    """As another program finds it: by the catalogue."""
    return open_catalog(folder.parents[1] / CATALOG_FILE).load_table((folder.parent.name, folder.name))
