"""Reads a target with its own client."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import redis
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from bench.postgres import OwnPostgres
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord
from headrace.tiles.finish import EPOCH
from tests.clickhouse import OwnClickHouse

COLUMNS = ("id", "card", "amount", "big", "n", "at")
Event = dict[str, Any]


def timed(sent: Event) -> Event:
    """An event with its time as a moment."""
    return sent | {"at": datetime.fromisoformat(sent["at"])}


def in_postgres(server: OwnPostgres, table: str) -> list[Event]:
    found = server.ask(f"SELECT {', '.join(COLUMNS)} FROM {table}")
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def in_redis(url: str, prefix: str) -> list[Event]:
    client = redis.Redis.from_url(url, decode_responses=True)
    found = [client.hgetall(key) for key in client.scan_iter(f"{prefix}:*", count=1000)]
    client.close()
    read = {"amount": float, "n": int, "big": orjson.loads, "at": datetime.fromisoformat}
    return [{name: read.get(name, str)(row[name]) for name in COLUMNS} for row in found]


def in_delta(folder: Path) -> list[Event]:
    if not DeltaTable.is_deltatable(str(folder)):
        return []
    rows: list[Event] = DeltaTable(folder).to_pyarrow_table(columns=list(COLUMNS)).to_pylist()
    return rows


def in_iceberg(folder: Path, table: str) -> list[Event]:
    """By a catalogue and a table of the reader's own."""
    if not (folder / "catalogue.db").exists():
        return []
    catalogue = SqlCatalog("headrace", uri=f"sqlite:///{folder / 'catalogue.db'}", warehouse=folder.as_uri())
    try:
        found = catalogue.load_table(table if "." in table else f"default.{table}")
        rows: list[Event] = found.scan(selected_fields=COLUMNS).to_arrow().to_pylist()
    except NoSuchTableError:
        return []
    finally:
        catalogue.close()
    return [{name: row[name] for name in COLUMNS} for row in rows]


def in_clickhouse(server: OwnClickHouse, table: str, final: str = "FINAL") -> list[Event]:
    """Times are microseconds, and booleans numbers, in the server that tests have."""
    if not server.ask(f"SELECT 1 FROM system.tables WHERE name = '{table}'"):
        return []
    rows = server.ask(f"SELECT {', '.join(COLUMNS)} FROM {table} {final}")
    return [row | {"at": EPOCH + timedelta(microseconds=row["at"]), "big": bool(row["big"])} for row in rows]


def records_of(broker: str, topic: str) -> list[ConsumerRecord]:
    """Every record of a topic, each partition's in order."""
    ends = OffsetClient(broker).topic_end_offsets([topic])
    return list(read_offset_range(broker, dict.fromkeys(ends, 0), ends))


def by(column: str, rows: list[Event]) -> dict[str, Event]:
    """Rows by a column with unique values."""
    found = {row[column]: row for row in rows}
    assert len(found) == len(rows), "a row is there twice"
    return found
