"""The database that changes are captured from: its connection, its setup checks, and its replication slots.

A replication slot holds our read position: PostgreSQL retains its WAL from there on, also while no reader is
connected. An unused slot has to be dropped.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from headrace.connectors.cdc.errors import CaptureSetupError, DatabaseUnavailable
from headrace.declare.names import replication_slot_name
from headrace.declare.streams.change_capture import Changes, DatabaseTable
from headrace.declare.streams.external_source import ENV_PREFIX
from headrace.errors import HeadraceError

try:
    import psycopg
    from psycopg import conninfo, sql
except ModuleNotFoundError as missing:
    raise HeadraceError('Capturing changes needs psycopg. Install it: pip install "headrace[postgres]".') from missing

CONNECT_TIMEOUT_SECONDS = 15
MAX_SLOT_NAME_LENGTH = 63  # PostgreSQL's limit
SLOT_PREFIX = "headrace_"
CONNECTION_PARTS = ("host", "port", "user", "dbname", "sslmode")
SELECT_SLOTS_SQL = """SELECT slot_name, active, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
    FROM pg_replication_slots WHERE database = current_database() AND starts_with(slot_name, %s) ORDER BY slot_name"""
SELECT_TABLE_SQL = """SELECT c.relreplident, array_agg(a.attname::text) FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.oid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped GROUP BY 1"""


class ReplicationSlot(NamedTuple):
    """A replication slot: whether a reader is connected, and how many bytes of WAL it retains."""

    name: str
    is_active: bool
    retained_bytes: int


@dataclass(frozen=True)
class SourceDatabase:
    """The database of a captured table; no text shows its password."""

    changes: Changes
    source: DatabaseTable = field(repr=False)

    @cached_property
    def connection_parts(self) -> dict[str, str]:
        """Host, port, user, database and sslmode: from the address, or PostgreSQL's own variables."""
        given_parts = {name: str(value) for name, value in conninfo.conninfo_to_dict(self._url).items() if value}
        default_parts = {
            "host": os.environ.get("PGHOST", "localhost"),
            "port": os.environ.get("PGPORT", "5432"),
            "user": os.environ.get("PGUSER", ""),
            "sslmode": os.environ.get("PGSSLMODE", "prefer"),
        }
        parts = {name: given_parts.get(name) or default_parts.get(name, "") for name in CONNECTION_PARTS}
        parts["dbname"] = parts["dbname"] or os.environ.get("PGDATABASE", "") or parts["user"]
        if not parts["user"]:
            raise CaptureSetupError(f'{self._label}: from_= names no user. Write from_="postgres://reader@db/shop".')
        return parts

    @property
    def password(self) -> str:
        """The password of the address; else PGPASSWORD."""
        try:
            password = conninfo.conninfo_to_dict(self._url).get("password")
        except psycopg.Error as error:
            raise CaptureSetupError(f"{self._label}: from_= is not a PostgreSQL address. Correct it.") from error
        return str(password or os.environ.get("PGPASSWORD", ""))

    @property
    def display_name(self) -> str:
        """Its address for messages."""
        return "{user}@{host}:{port}/{dbname}".format(**self.connection_parts)

    @contextmanager
    def connect(self) -> Iterator["psycopg.Connection[Any]"]:
        """A connection for a few statements; its errors never show the password."""
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                yield connection
        except psycopg.Error as failure:
            message = " ".join(str(failure).split())
            redacted = message.replace(self.password, "…") if self.password else message
            raise DatabaseUnavailable(f"{self._label}: {self.display_name} does not answer: {redacted}") from None

    def require_capturable(self) -> None:
        """Reject a setup that Debezium cannot fully read, with the statement that fixes it."""
        table, declared_columns = self.source.table, self.changes.row_schema.names
        with self.connect() as connection:
            (wal_level,) = connection.execute("SHOW wal_level").fetchone() or ("",)
            table_row = connection.execute(SELECT_TABLE_SQL, [_quote_table(table)]).fetchone()
        if wal_level != "logical":
            raise CaptureSetupError(
                f"{self._label}: {self.display_name} has wal_level={wal_level}. Run ALTER SYSTEM SET wal_level "
                f"= logical, "
                "and restart it."
            )
        if table_row is None:
            raise CaptureSetupError(
                f"{self._label}: {self.display_name} has no table {table}, or does not show it to this user."
            )
        replica_identity, columns = table_row
        missing = [name for name in declared_columns if name not in columns]
        if missing:
            raise CaptureSetupError(
                f"{self._label}: {table} has no column {missing[0]!r}. It has {', '.join(columns)}: correct schema=."
            )
        if replica_identity not in ("f", b"f"):
            raise CaptureSetupError(
                f"{self._label}: {table} does not log the old values of a changed row. "
                f"Run ALTER TABLE {table} REPLICA IDENTITY FULL."
            )

    def list_slots(self, app: str) -> list[ReplicationSlot]:
        """The slots of an app in this database, including those of streams that it no longer declares."""
        with self.connect() as connection:
            return [ReplicationSlot(*row) for row in connection.execute(SELECT_SLOTS_SQL, [slot_name(app)]).fetchall()]

    def has_slot(self, slot: str) -> bool:
        """Whether the slot exists."""
        with self.connect() as connection:
            query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
            return connection.execute(query, [slot]).fetchone() is not None

    def drop_slot(self, slot: str) -> bool:
        """Drop a slot and release its WAL; False if it does not exist."""
        with self.connect() as connection:
            terminate_query = (
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active"
            )
            connection.execute(terminate_query, [slot])
            for _ in range(50):  # the terminated reader may need a moment to release it
                dropped = self._try_drop_slot(connection, slot)
                if dropped is not None:
                    return dropped
            raise DatabaseUnavailable(f"{self._label}: the slot {slot} is being read. Stop its reader, then drop it.")

    def has_publication(self, publication: str) -> bool:
        """Whether the publication exists and contains our table."""
        with self.connect() as connection:
            query = "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s"
            return connection.execute(query, [publication, *self.source.table.split(".")]).fetchone() is not None

    def drop_publication(self, publication: str) -> None:
        """Drop a publication, if it exists."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(publication)))

    def _try_drop_slot(self, connection: "psycopg.Connection[Any]", slot: str) -> bool | None:
        query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        try:
            return bool(connection.execute(query, [slot]).fetchall())
        except psycopg.errors.ObjectInUse:
            connection.execute("SELECT pg_sleep(0.1)")
            return None

    @property
    def _conninfo(self) -> str:
        options = {
            "connect_timeout": str(CONNECT_TIMEOUT_SECONDS),
            "application_name": "headrace",
            "password": self.password,
        }
        return conninfo.make_conninfo(
            "", **self.connection_parts, **{name: value for name, value in options.items() if value}
        )

    @property
    def _label(self) -> str:
        return f"Changes {self.changes.name!r}"

    @property
    def _url(self) -> str:
        reference = self.source.url
        if not reference.startswith(ENV_PREFIX):
            return reference
        name = reference.removeprefix(ENV_PREFIX)
        if not os.environ.get(name):
            raise CaptureSetupError(f"{self._label}: the variable {name} is not set. Set it to the database's address.")
        return os.environ[name]


def source_database(changes: Changes) -> SourceDatabase:
    """The database of a change stream that Headrace captures."""
    if changes.source is None:
        raise CaptureSetupError(f"Changes {changes.name!r}: it has no from_=, so another system fills its topic.")
    return SourceDatabase(changes, changes.source)


def slot_name(app: str, changes: Changes | None = None) -> str:
    """The name of a slot and its publication; without `changes`, the common prefix of an app's slots.

    >>> slot_name("shop.features")
    'headrace_shop_features_'
    """
    prefix = SLOT_PREFIX + replication_slot_name(app) + "_"
    if changes is None:
        return prefix
    full_name = prefix + replication_slot_name(changes.name)
    if len(full_name) <= MAX_SLOT_NAME_LENGTH:
        return full_name
    return f"{full_name[: MAX_SLOT_NAME_LENGTH - 9]}_{sha256(changes.name.encode()).hexdigest()[:8]}"


def _quote_table(table: str) -> str:
    return ".".join(f'"{part}"' for part in table.split("."))
