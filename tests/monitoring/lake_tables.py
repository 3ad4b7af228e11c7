"""A lake of payments and chargebacks, in the layout that Spark lands."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.declare.streams.stream import Stream
from headrace.lake.ingestion.table_mapping import silver_mapping
from headrace.lake.lake_table import LakeTable, TablePosition
from tests.monitoring.app import chargebacks, payments

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = 1_500


def land_payments(lake: Path) -> None:
    """Payments, of which the large ones were charged back."""
    chance = np.random.default_rng(0)
    moments = [NOON + timedelta(seconds=float(second)) for second in np.sort(chance.uniform(0, 30_000, ROWS))]
    amount = chance.exponential(40, ROWS)
    ids = [f"p{number}" for number in range(ROWS)]
    cards = chance.choice([f"c{number}" for number in range(20)], ROWS)
    land(lake, payments, {"id": ids, "card": cards, "amount": amount}, moments)
    bad = [number for number in range(ROWS) if amount[number] > 60]
    told = {"id": [ids[number] for number in bad], "fraud": [True] * len(bad)}
    land(lake, chargebacks, told, [moments[number] + timedelta(minutes=5) for number in bad])


def land(lake: Path, stream: Stream, columns: dict[str, Any], moments: list[datetime]) -> None:
    """Events of one stream."""
    table = LakeTable(lake, silver_mapping(stream))
    table.prepare()
    times = pa.array(moments, pa.timestamp("us", "UTC"))
    places = {"hr_partition": pa.array([0] * len(moments), pa.int32()), "hr_offset": list(range(len(moments)))}
    file = table.folder / "hr_day=2026-01-01" / "landed.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table(columns | {"at": times, "hr_arrival": times} | places), file)
    table.commit([file], {0: TablePosition(len(moments) - 1, len(moments) - 1)})
