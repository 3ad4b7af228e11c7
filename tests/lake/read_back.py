"""Tables of a lake as others read them: by the library of their format."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.table import Table

from headrace.lake.catalogue import catalogue_of
from headrace.lake.formats import CATALOGUE, format_of


def read_back(folder: Path) -> pa.Table:
    """Every row of the table in a folder."""
    if format_of(folder.parents[1]) == "iceberg":
        return iceberg_table(folder).scan().to_arrow()
    return DeltaTable(folder).to_pyarrow_table()


def iceberg_table(folder: Path) -> Table:
    """As another program finds it: by the catalogue."""
    return catalogue_of(folder.parents[1] / CATALOGUE).load_table((folder.parent.name, folder.name))
