"""The real servers that an app of the zoo needs, started before its run and stopped after it."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.postgres import OwnPostgres
from headrace.connectors.outbox.ddl import outbox_ddl
from headrace.embedded_servers.ports import HOST, free_port
from tests.apps.factors import Row
from tests.apps.naming import names_of
from tests.cassandra_server import OwnCassandra
from tests.clickhouse import OwnClickHouse
from tests.connectors.sources.nats_server import OwnNats
from tests.servers import OwnRedis, own_postgres
from tests.telemetry.https_server import Listening, answer, listening, self_signed

CAPTURED = (
    'CREATE TABLE zoo_table ("{id}" text PRIMARY KEY, "{key}" text, zone bigint, peak boolean, since timestamptz, '
    '"{amount}" double precision, "{sort}" text, note text, extra text)'
)


@dataclass
class Places:
    """What an app of the zoo is started with, and the servers a test looks into."""

    folder: Path
    flags: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    postgres: OwnPostgres | None = None
    redis: OwnRedis | None = None
    nats: OwnNats | None = None
    clickhouse: OwnClickHouse | None = None
    hook: Listening | None = None
    registry: str = ""


@contextmanager
def places_of(row: Row, folder: Path) -> Iterator[Places]:
    """The servers of an app, while it runs."""
    places = Places(folder)
    with ExitStack() as stack:
        _start_store(row, places, stack)
        _start_postgres(row, places, stack)
        _start_sources(row, places, stack)
        _start_targets(row, places, stack)
        places.flags += _lake_flags(row, folder)
        before = {name: os.environ.get(name) for name in places.variables}
        os.environ.update(places.variables)
        stack.callback(_restore, before)
        yield places


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _started(server: Any, stack: ExitStack) -> Any:
    server.start()
    stack.callback(server.stop)
    return server


def _folder(places: Places, name: str) -> Path:
    folder = places.folder / name
    folder.mkdir(parents=True)
    return folder


def _start_store(row: Row, places: Places, stack: ExitStack) -> None:
    if "redis" in (row["store"], row["sink"]):
        places.redis = _started(OwnRedis(_folder(places, "redis"), lasting=True), stack)
        places.variables["ZOO_REDIS"] = places.redis.url
    if row["store"] == "redis" and places.redis is not None:
        places.flags += ["--store", places.redis.url]
    if row["store"] == "cassandra":
        places.flags += ["--store", _started(OwnCassandra(_folder(places, "cassandra")), stack).url]


def _start_postgres(row: Row, places: Places, stack: ExitStack) -> None:
    if row["source"] not in ("captured", "outbox") and row["sink"] != "postgres":
        return
    places.postgres = stack.enter_context(own_postgres(is_captured=row["source"] == "captured"))
    places.variables["ZOO_PG"] = places.postgres.url
    if row["source"] == "outbox":
        places.postgres.ask(outbox_ddl("zoo_outbox"))
    if row["source"] == "captured":
        names = names_of(row)
        places.postgres.ask(CAPTURED.format(id=names.id, key=names.key, amount=names.amount, sort=names.sort))
        places.postgres.ask("ALTER TABLE zoo_table REPLICA IDENTITY FULL")


def _start_sources(row: Row, places: Places, stack: ExitStack) -> None:
    if row["source"] == "nats":
        places.nats = _started(OwnNats(_folder(places, "nats")), stack)
        places.nats.add_stream("ZOO", ["zoo"])
        places.variables["ZOO_NATS"] = places.nats.url
    if row["source"] == "avro":
        port = free_port()
        places.registry = f"http://{HOST}:{port}/apis/ccompat/v7"
        places.variables["ZOO_REGISTRY"] = places.registry
        places.flags += ["--registry", "--registry-port", str(port)]


def _start_targets(row: Row, places: Places, stack: ExitStack) -> None:
    if row["sink"] == "clickhouse":
        places.clickhouse = _started(OwnClickHouse(_folder(places, "clickhouse")), stack)
        places.variables["ZOO_CLICKHOUSE"] = places.clickhouse.url
    if row["second_sink"] == "webhook":
        certificate = self_signed(_folder(places, "hook"))
        places.hook = stack.enter_context(listening(certificate, answer(200)))
        places.variables["ZOO_HOOK"] = places.hook.url
        places.flags += ["--webhook-allow", HOST, "--webhook-ca", str(certificate)]


def _lake_flags(row: Row, folder: Path) -> list[str]:
    if row["lake"] == "off":
        return ["--lake", "off"]
    return ["--lake", str(folder / "lake"), "--lake-every", "5s", "--lake-format", row["lake"]]


def is_taken(port: int) -> bool:
    """Whether a server listens."""
    with socket.socket() as asked:
        return asked.connect_ex((HOST, port)) == 0
