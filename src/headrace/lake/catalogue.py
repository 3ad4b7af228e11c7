"""The catalogue of Iceberg tables: a SQLite file in their folder."""

from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from headrace.lake.formats import CATALOGUE

# A commit that is made again by itself on a newer table would not see that offsets have moved there.
MADE_ONCE = {"commit.retry.num-retries": "0"}
SHORT_HISTORY = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def catalogue_of(folder: Path) -> Catalog:
    """The catalogue of a folder, made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    return SqlCatalog("headrace", uri=f"sqlite:///{folder / CATALOGUE}", warehouse=folder.as_uri())
