"""The database that changes are captured from: how it is reached, whether it is set up for it, and its slots.

A slot is where PostgreSQL remembers how far we have read: it keeps its log on disk from there on, also while nobody
reads. One that nobody needs any more has to be dropped.
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
MAX_SLOT_NAME_LENGTH = 63  # of a slot, as PostgreSQL has it
SLOT_PREFIX = "headrace_"
CONNECTION_PARTS = ("host", "port", "user", "dbname", "sslmode")
SELECT_SLOTS_SQL = """SELECT slot_name, active, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
    FROM pg_replication_slots WHERE database = current_database() AND starts_with(slot_name, %s) ORDER BY slot_name"""
SELECT_TABLE_SQL = """SELECT c.relreplident, array_agg(a.attname::text) FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.oid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped GROUP BY 1"""


class ReplicationSlot(NamedTuple):
    """A slot of ours: whether somebody reads it now, and how many bytes of log it keeps on the database's disk."""

    name: str
    is_active: bool
    retained_bytes: int


@dataclass(frozen=True)
class SourceDatabase:
    """Where a table is; the password is shown nowhere."""

    changes: Changes
    source: DatabaseTable = field(repr=False)

    @cached_property
    def connection_parts(self) -> dict[str, str]:
        """Host, port, user and name, and how it is reached; as the address says, or PostgreSQL's own variables."""
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
        """What the address has, as a variable may; else PGPASSWORD."""
        try:
            password = conninfo.conninfo_to_dict(self._url).get("password")
        except psycopg.Error as error:
            raise CaptureSetupError(f"{self._label}: from_= is no address of a PostgreSQL. Mend it.") from error
        return str(password or os.environ.get("PGPASSWORD", ""))

    @property
    def display_name(self) -> str:
        """Its address for a person."""
        return "{user}@{host}:{port}/{dbname}".format(**self.connection_parts)

    @contextmanager
    def connect(self) -> Iterator["psycopg.Connection[Any]"]:
        """A connection for a few statements; what goes wrong is told without the password."""
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                yield connection
        except psycopg.Error as failure:
            message = " ".join(str(failure).split())
            redacted = message.replace(self.password, "…") if self.password else message
            raise DatabaseUnavailable(f"{self._label}: {self.display_name} does not answer: {redacted}") from None

    def require_capturable(self) -> None:
        """Refuse what Debezium could not read, or not wholly, with the statement that mends it."""
        table, declared_columns = self.source.table, self.changes.row_schema.names
        with self.connect() as connection:
            (wal_level,) = connection.execute("SHOW wal_level").fetchone() or ("",)
            table_row = connection.execute(SELECT_TABLE_SQL, [_quote_table(table)]).fetchone()
        if wal_level != "logical":
            raise CaptureSetupError(
                f"{self._label}: {self.display_name} has wal_level={wal_level}. Run ALTER SYSTEM SET wal_level "
                f"= logical, "
                "and start it anew."
            )
        if table_row is None:
            raise CaptureSetupError(
                f"{self._label}: {self.display_name} has no table {table}, or does not show it to this user."
            )
        replica_identity, columns = table_row
        missing = [name for name in declared_columns if name not in columns]
        if missing:
            raise CaptureSetupError(
                f"{self._label}: {table} has no column {missing[0]!r}. It has {', '.join(columns)}: mend schema=."
            )
        if replica_identity not in ("f", b"f"):
            raise CaptureSetupError(
                f"{self._label}: {table} does not tell what a changed row was before. "
                f"Run ALTER TABLE {table} REPLICA IDENTITY FULL."
            )

    def list_slots(self, app: str) -> list[ReplicationSlot]:
        """The slots of an app in this database, also those of what it does not declare any more."""
        with self.connect() as connection:
            return [ReplicationSlot(*row) for row in connection.execute(SELECT_SLOTS_SQL, [slot_name(app)]).fetchall()]

    def has_slot(self, slot: str) -> bool:
        """Whether there is such a slot."""
        with self.connect() as connection:
            query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
            return connection.execute(query, [slot]).fetchone() is not None

    def drop_slot(self, slot: str) -> bool:
        """Let go of a slot, and of the log it keeps; False where there was none."""
        with self.connect() as connection:
            terminate_query = (
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active"
            )
            connection.execute(terminate_query, [slot])
            for _ in range(50):  # whoever read it may need a moment to let go
                dropped = self._try_drop_slot(connection, slot)
                if dropped is not None:
                    return dropped
            raise DatabaseUnavailable(
                f"{self._label}: the slot {slot} is being read. Stop whoever reads it, then drop it."
            )

    def has_publication(self, publication: str) -> bool:
        """Whether there is such a publication, of our table."""
        with self.connect() as connection:
            query = "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s"
            return connection.execute(query, [publication, *self.source.table.split(".")]).fetchone() is not None

    def drop_publication(self, publication: str) -> None:
        """Drop a publication, if there is one."""
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
    """The database of changes that are captured by us."""
    if changes.source is None:
        raise CaptureSetupError(f"Changes {changes.name!r}: it has no from_=, so its topic is filled by somebody else.")
    return SourceDatabase(changes, changes.source)


def slot_name(app: str, changes: Changes | None = None) -> str:
    """The name of a slot and its publication; without changes, what those of an app begin with.

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
