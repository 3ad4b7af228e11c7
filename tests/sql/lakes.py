"""Small lakes, in the layout that Spark lands."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import count, groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from headrace.lake.formats.arrow_schemas import arrow_schema
from headrace.lake.ingestion.table_mapping import DAY, silver_mapping
from headrace.lake.lake_table import LakeTable, TablePosition

_files = count()

payments = hr.Stream(
    "payments",
    schema="id string, card string, country string, amount double, at timestamp",
    id="id",
    key="card",
    time="at",
)


def payment(number: int, **more: Any) -> dict[str, Any]:
    """An event of the stream; amounts have no rounding errors."""
    event = {
        "id": f"p{number}",
        "card": f"c{number * 7 % 5}",
        "country": ("FR", "DE", None)[number % 3],
        "amount": None if number % 11 == 0 else number / 4,
        "at": datetime.fromisoformat(f"2026-01-0{1 + number % 4}T00:00:{number % 60:02d}Z"),
    }
    return event | more


def land(lake: Path, stream: hr.Stream, events: Iterable[Mapping[str, Any]], *, without: tuple[str, ...] = ()) -> None:
    """Add events to silver, a file a day; what a stream did not have then is not in its files."""
    table = LakeTable(lake, silver_mapping(stream))
    table.prepare()
    written = pa.schema([field for field in arrow_schema(table.mapping) if field.name not in {DAY, *without}])
    ordered = sorted(events, key=lambda event: event[stream.time])
    for day, of_day in groupby(ordered, key=lambda event: event[stream.time].date()):
        rows = [
            dict(event) | {"hr_arrival": event[stream.time], "hr_partition": 0, "hr_offset": number}
            for number, event in enumerate(of_day)
        ]
        file = table.folder / f"{DAY}={day}" / f"{next(_files)}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, written), file)
        table.commit([file], {0: TablePosition(len(rows), len(rows))})
