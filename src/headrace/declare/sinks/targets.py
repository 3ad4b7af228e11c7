"""Where a sink brings events to, and which deliveries each place can honour, in words that the docs are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from headrace.declare.source_location import locate_caller
from headrace.declare.streams.encoding import RecordEncoding, registry_address_problem
from headrace.declare.streams.external_sources import ENV_PREFIX
from headrace.errors import DeclarationError

Delivery = Literal["at_most_once", "at_least_once", "exactly_once"]
DELIVERIES: tuple[Delivery, ...] = ("at_most_once", "at_least_once", "exactly_once")
OFFSETS_FIRST = "offsets first, then rows: what a crash finds between is lost, nothing is written twice"
ROWS_FIRST = "rows first, then offsets: what a crash finds between is written again"


@dataclass(frozen=True)
class Target:
    """A place rows are brought to.

    `honours` says how each delivery is kept, `refuses` what to do instead of one that cannot be. One that takes a key
    keeps one row of each; `needs_key` is said of those that cannot do without.
    """

    kind: ClassVar[str]
    delivery_guarantees: ClassVar[Mapping[Delivery, str]]
    unsupported_deliveries: ClassVar[Mapping[Delivery, str]] = {}
    takes_key: ClassVar[bool] = True
    needs_key: ClassVar[bool] = True

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise DeclarationError(f"{locate_caller(2)}: {type(self).__name__}: {problem}")

    def _problem(self) -> str | None:
        """What is wrong with it as it is written, and what to write instead."""
        raise NotImplementedError


@dataclass(frozen=True)
class Postgres(Target):
    """A table of PostgreSQL, made where it is missing: a row of each key, with `hr_partition` and `hr_offset`."""

    kind = "postgres"
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST + ", onto itself",
        "exactly_once": "rows and offsets in one transaction",
    }

    url: str = field(repr=False)
    table: str

    def _problem(self) -> str | None:
        return _table_problem(self.table) or url_problem(self.url, ("postgres", "postgresql"), "PG_URL")


@dataclass(frozen=True)
class Redis(Target):
    """A hash of Redis for each key, named `prefix:key`, with `hr_partition` and `hr_offset`."""

    kind = "redis"
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST + ", onto itself",
        "exactly_once": "rows and offsets in one script",
    }

    url: str = field(repr=False)
    prefix: str

    def _problem(self) -> str | None:
        if not _is_non_empty_text(self.prefix):
            return f'prefix={self.prefix!r} is no name. Write prefix="payments": keys are then payments:….'
        return url_problem(self.url, ("redis", "rediss", "unix"), "REDIS_URL")


@dataclass(frozen=True)
class Delta(Target):
    """A Delta table in a folder, made where it is missing: rows are appended or, with `key=`, merged."""

    kind = "delta"
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST,
        "exactly_once": "rows and offsets in one commit of the table's log",
    }
    needs_key = False

    folder: str

    def _problem(self) -> str | None:
        if not _is_non_empty_text(self.folder) or "://" in self.folder:
            return f'folder={self.folder!r} is no folder. Write hr.Delta("warehouse/payments").'
        return None


@dataclass(frozen=True)
class Iceberg(Target):
    """A table of Apache Iceberg, in a folder with its catalogue, a SQLite file: made where they are missing."""

    kind = "iceberg"
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST,
        "exactly_once": "rows and offsets in one commit of the table",
    }
    needs_key = False

    folder: str
    table: str

    @property
    def identifier(self) -> str:
        """Its name in the catalogue."""
        return self.table if "." in self.table else f"default.{self.table}"

    def _problem(self) -> str | None:
        if not _is_non_empty_text(self.folder) or "://" in self.folder:
            return f'folder={self.folder!r} is no folder. Write hr.Iceberg("warehouse", table="payments").'
        return _table_problem(self.table)


@dataclass(frozen=True)
class ClickHouse(Target):
    """A table of ClickHouse, reached over HTTP, made where it is missing; rows that are one are one with `FINAL`."""

    kind = "clickhouse"
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST,
        "exactly_once": "by the table: a row that is written again has the place it had, and is one to whoever reads "
        "with `FINAL`",
    }
    needs_key = False

    url: str = field(repr=False)
    table: str

    def _problem(self) -> str | None:
        return _table_problem(self.table) or url_problem(self.url, ("http", "https"), "CLICKHOUSE_URL")


@dataclass(frozen=True)
class Kafka(Target):
    """A topic, of the app's own broker unless another is named; it has to be there."""

    kind = "kafka"
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST,
        "exactly_once": "by the reader: it passes over a `headrace.offset` that is not above the last one of its "
        "`headrace.partition`",
    }

    topic: str
    broker: str | None = field(default=None, repr=False)
    format: Literal["json", "avro"] = "json"
    registry: str | None = None
    subject: str | None = None

    @property
    def encoding(self) -> RecordEncoding | None:
        """Which registry has the schema of its records, where they are not plain JSON."""
        if self.registry is None:
            return None
        return RecordEncoding(self.format, self.registry.rstrip("/"), self.subject or f"{self.topic}-value")

    def _problem(self) -> str | None:
        if not _is_non_empty_text(self.topic):
            return f'topic={self.topic!r} is no topic. Write hr.Kafka("warehouse.payments").'
        if self.broker is not None and not _is_non_empty_text(self.broker):
            return 'broker= is no address. Write broker="host:9092" or broker="env:KAFKA".'
        return self._format_problem()

    def _format_problem(self) -> str | None:
        if self.format not in ("json", "avro"):
            return f'format={self.format!r}. Write "json" or "avro".'
        if (self.format == "avro") != (self.registry is not None) or (self.registry is None and self.subject):
            return 'format="avro" and registry= go together. Write both, such as registry="http://127.0.0.1:8081".'
        return None if self.registry is None else registry_address_problem(self.registry)


@dataclass(frozen=True)
class Webhook(Target):
    """An https address that takes lists of rows as JSON; its path is a secret, and shown nowhere."""

    kind = "webhook"
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST + "; every row says its place, and a request that is repeated its Idempotency-Key",
    }
    unsupported_deliveries: ClassVar[Mapping[Delivery, str]] = {
        "exactly_once": "nobody can know whether a request without an answer was taken. "
        'Write delivery="at_least_once", and let the receiver pass over places it has seen: every row has one'
    }
    takes_key = False
    needs_key = False

    url: str = field(repr=False)

    def _problem(self) -> str | None:
        if not _is_non_empty_text(self.url) or not self.url.startswith((ENV_PREFIX, "https://")):
            return 'url= is not an https address. Write hr.Webhook("env:HOOK_URL") and set that variable.'
        return None


TARGETS: tuple[type[Target], ...] = (Postgres, Redis, Delta, Iceberg, ClickHouse, Kafka, Webhook)


def _is_non_empty_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _table_problem(table: object) -> str | None:
    if not _is_non_empty_text(table) or not all(str(table).split(".")):
        return f'table={table!r} is no name. Write table="payments" or table="shop.payments".'
    return None


def url_problem(url: object, schemes: tuple[str, ...], variable: str) -> str | None:
    """An address or the variable that has it; a password has no place in code."""
    remedy = f'Write url="{ENV_PREFIX}{variable}" and set that variable.'
    if not isinstance(url, str) or not url.startswith((ENV_PREFIX, *(f"{scheme}://" for scheme in schemes))):
        return f"url= is no address of {schemes[0]}://. {remedy}"
    has_password = ":" in urlsplit(url).netloc.rpartition("@")[0] or "password=" in url
    return f"url= has a password, and code is no place for one. {remedy}" if has_password else None
