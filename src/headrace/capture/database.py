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

from headrace.capture.errors import DatabaseAway, NotCapturable
from headrace.declare.changes import Changes, Source
from headrace.declare.names import replication_slot
from headrace.declare.sources import ENV
from headrace.errors import HeadraceError

try:
    import psycopg
    from psycopg import conninfo, sql
except ModuleNotFoundError as missing:
    raise HeadraceError('Capturing changes needs psycopg. Install it: pip install "headrace[postgres]".') from missing

CONNECT_SECONDS = 15
LONGEST_NAME = 63  # of a slot, as PostgreSQL has it
OWN = "headrace_"
PARTS = ("host", "port", "user", "dbname", "sslmode")
SLOTS = """SELECT slot_name, active, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
    FROM pg_replication_slots WHERE database = current_database() AND starts_with(slot_name, %s) ORDER BY slot_name"""
TABLE = """SELECT c.relreplident, array_agg(a.attname::text) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.oid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped GROUP BY 1"""


class Slot(NamedTuple):
    """A slot of ours: whether somebody reads it now, and how many bytes of log it keeps on the database's disk."""

    name: str
    is_read: bool
    kept_bytes: int


@dataclass(frozen=True)
class Database:
    """Where a table is; the password is shown nowhere."""

    changes: Changes
    source: Source = field(repr=False)

    @cached_property
    def parts(self) -> dict[str, str]:
        """Host, port, user and name, and how it is reached; as the address says, or PostgreSQL's own variables."""
        found = {name: str(value) for name, value in conninfo.conninfo_to_dict(self._url).items() if value}
        known = {
            "host": os.environ.get("PGHOST", "localhost"),
            "port": os.environ.get("PGPORT", "5432"),
            "user": os.environ.get("PGUSER", ""),
            "sslmode": os.environ.get("PGSSLMODE", "prefer"),
        }
        parts = {name: found.get(name) or known.get(name, "") for name in PARTS}
        parts["dbname"] = parts["dbname"] or os.environ.get("PGDATABASE", "") or parts["user"]
        if not parts["user"]:
            raise NotCapturable(f'{self._where}: from_= names no user. Write from_="postgres://reader@db/shop".')
        return parts

    @property
    def password(self) -> str:
        """What the address has, as a variable may; else PGPASSWORD."""
        try:
            written = conninfo.conninfo_to_dict(self._url).get("password")
        except psycopg.Error as wrong:
            raise NotCapturable(f"{self._where}: from_= is no address of a PostgreSQL. Mend it.") from wrong
        return str(written or os.environ.get("PGPASSWORD", ""))

    @property
    def shown(self) -> str:
        """Its address for a person."""
        return "{user}@{host}:{port}/{dbname}".format(**self.parts)

    @contextmanager
    def connected(self) -> Iterator["psycopg.Connection[Any]"]:
        """A connection for a few statements; what goes wrong is told without the password."""
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                yield connection
        except psycopg.Error as failure:
            said = " ".join(str(failure).split())
            hidden = said.replace(self.password, "…") if self.password else said
            raise DatabaseAway(f"{self._where}: {self.shown} does not answer: {hidden}") from None

    def require_capturable(self) -> None:
        """Refuse what Debezium could not read, or not wholly, with the statement that mends it."""
        table, wanted = self.source.table, self.changes.row.names
        with self.connected() as connection:
            (level,) = connection.execute("SHOW wal_level").fetchone() or ("",)
            found = connection.execute(TABLE, [_quoted(table)]).fetchone()
        if level != "logical":
            raise NotCapturable(
                f"{self._where}: {self.shown} has wal_level={level}. Run ALTER SYSTEM SET wal_level = logical, "
                "and start it anew."
            )
        if found is None:
            raise NotCapturable(f"{self._where}: {self.shown} has no table {table}, or does not show it to this user.")
        replica_identity, columns = found
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise NotCapturable(
                f"{self._where}: {table} has no column {missing[0]!r}. It has {', '.join(columns)}: mend schema=."
            )
        if replica_identity not in ("f", b"f"):
            raise NotCapturable(
                f"{self._where}: {table} does not tell what a changed row was before. "
                f"Run ALTER TABLE {table} REPLICA IDENTITY FULL."
            )

    def slots(self, app: str) -> list[Slot]:
        """The slots of an app in this database, also those of what it does not declare any more."""
        with self.connected() as connection:
            return [Slot(*row) for row in connection.execute(SLOTS, [name_of(app)]).fetchall()]

    def has(self, slot: str) -> bool:
        """Whether there is such a slot."""
        with self.connected() as connection:
            asked = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
            return connection.execute(asked, [slot]).fetchone() is not None

    def drop(self, slot: str) -> bool:
        """Let go of a slot, and of the log it keeps; False where there was none."""
        with self.connected() as connection:
            ended = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active"
            connection.execute(ended, [slot])
            for _ in range(50):  # whoever read it may need a moment to let go
                dropped = self._dropped(connection, slot)
                if dropped is not None:
                    return dropped
            raise DatabaseAway(f"{self._where}: the slot {slot} is being read. Stop whoever reads it, then drop it.")

    def publishes(self, publication: str) -> bool:
        """Whether there is such a publication, of our table."""
        with self.connected() as connection:
            asked = "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s"
            return connection.execute(asked, [publication, *self.source.table.split(".")]).fetchone() is not None

    def unpublish(self, publication: str) -> None:
        """Drop a publication, if there is one."""
        with self.connected() as connection:
            connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(publication)))

    def _dropped(self, connection: "psycopg.Connection[Any]", slot: str) -> bool | None:
        asked = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        try:
            return bool(connection.execute(asked, [slot]).fetchall())
        except psycopg.errors.ObjectInUse:
            connection.execute("SELECT pg_sleep(0.1)")
            return None

    @property
    def _conninfo(self) -> str:
        how = {"connect_timeout": str(CONNECT_SECONDS), "application_name": "headrace", "password": self.password}
        return conninfo.make_conninfo("", **self.parts, **{name: value for name, value in how.items() if value})

    @property
    def _where(self) -> str:
        return f"Changes {self.changes.name!r}"

    @property
    def _url(self) -> str:
        written = self.source.url
        if not written.startswith(ENV):
            return written
        name = written.removeprefix(ENV)
        if not os.environ.get(name):
            raise NotCapturable(f"{self._where}: the variable {name} is not set. Set it to the database's address.")
        return os.environ[name]


def database_of(changes: Changes) -> Database:
    """The database of changes that are captured by us."""
    if changes.source is None:
        raise NotCapturable(f"Changes {changes.name!r}: it has no from_=, so its topic is filled by somebody else.")
    return Database(changes, changes.source)


def name_of(app: str, changes: Changes | None = None) -> str:
    """The name of a slot and its publication; without changes, what those of an app begin with.

    >>> name_of("shop.features")
    'headrace_shop_features_'
    """
    name = OWN + replication_slot(app) + "_"
    if changes is None:
        return name
    whole = name + replication_slot(changes.name)
    if len(whole) <= LONGEST_NAME:
        return whole
    return f"{whole[: LONGEST_NAME - 9]}_{sha256(changes.name.encode()).hexdigest()[:8]}"


def _quoted(table: str) -> str:
    return ".".join(f'"{part}"' for part in table.split("."))
