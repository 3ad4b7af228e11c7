"""Reads what the sinks of an app of the zoo wrote to their targets."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from headrace.declare.app import App
from headrace.declare.streams.stream import Stream
from tests.apps.oracle import clean_events, records_of
from tests.apps.places import Places


def not_sunk(app: App, places: Places, broker: str) -> Iterator[str]:
    """What a sink has not brought to its target, or should not have."""
    for sink in app.sinks:
        stream = sink.of
        assert isinstance(stream, Stream)
        wanted = {event[stream.id] for event in clean_events(broker, stream)}
        found = set(_TARGETS[type(sink.to).__name__](places, broker, stream.id))
        if found != wanted:
            yield f"{sink.name}: {len(wanted - found)} rows missing, {len(found - wanted)} too many"


def _in_postgres(places: Places, _broker: str, own_id: str) -> list[Any]:
    assert places.postgres is not None
    return [row[0] for row in _asked(places.postgres.ask, f'SELECT "{own_id}" FROM zoo_rows')]


def _in_redis(places: Places, _broker: str, own_id: str) -> list[Any]:
    assert places.redis is not None
    with redis.Redis.from_url(places.redis.url, decode_responses=True) as client:
        return [client.hget(key, own_id) for key in client.scan_iter("zoo:*", count=1000)]


def _in_clickhouse(places: Places, _broker: str, own_id: str) -> list[Any]:
    assert places.clickhouse is not None
    return [row["id"] for row in _asked(places.clickhouse.ask, f"SELECT `{own_id}` AS id FROM zoo_rows FINAL")]


def _in_delta(places: Places, _broker: str, own_id: str) -> list[Any]:
    folder = places.folder / "sunk-delta"
    if not DeltaTable.is_deltatable(str(folder)):
        return []
    rows: list[Any] = DeltaTable(folder).to_pyarrow_table(columns=[own_id])[own_id].to_pylist()
    return rows


def _in_iceberg(places: Places, _broker: str, own_id: str) -> list[Any]:
    folder: Path = places.folder / "sunk-iceberg"
    if not (folder / "catalogue.db").exists():
        return []
    catalogue = SqlCatalog("headrace", uri=f"sqlite:///{folder / 'catalogue.db'}", warehouse=folder.as_uri())
    try:
        rows: list[Any] = catalogue.load_table("default.zoo_rows").scan().to_arrow()[own_id].to_pylist()
    except NoSuchTableError:
        return []
    finally:
        catalogue.close()
    return rows


def _in_kafka(_places: Places, broker: str, own_id: str) -> list[Any]:
    return [json.loads(record.value or b"")[own_id] for record in records_of(broker, "zoo.rows")]


def _at_webhook(places: Places, _broker: str, own_id: str) -> list[Any]:
    assert places.hook is not None
    return [row[own_id] for body in list(places.hook.bodies) for row in body.get("rows", ())]


def _asked(ask: Callable[[str], list[Any]], question: str) -> list[Any]:
    """What a target answers; nothing while its table is not there."""
    try:
        return ask(question)
    except Exception as problem:
        if "exist" in str(problem):  # each client has a class of its own for it
            return []
        raise


_TARGETS = {
    "Postgres": _in_postgres,
    "Redis": _in_redis,
    "ClickHouse": _in_clickhouse,
    "Delta": _in_delta,
    "Iceberg": _in_iceberg,
    "Kafka": _in_kafka,
    "Webhook": _at_webhook,
}
