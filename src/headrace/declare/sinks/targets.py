"""The registry of sink targets: each class is a target, and its class variables are its entry.

The writer of a target is one file in `headrace.connectors.sinks.targets`, and needs the driver: an app is declared,
planned and served without it. The names in `__all__` are exported as `hr.…`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from headrace.declare.sinks.target import (
    OFFSETS_FIRST,
    ROWS_FIRST,
    Delivery,
    Target,
    folder_problem,
    is_non_empty_text,
    table_problem,
    url_problem,
)
from headrace.declare.streams.encoding import RecordEncoding, registry_address_problem
from headrace.declare.streams.external_source import ENV_PREFIX
from headrace.plugins import Driver, PluginEntry, PluginRegistry, option

__all__ = ["ClickHouse", "Delta", "Iceberg", "Kafka", "Postgres", "Redis", "Webhook"]


@dataclass(frozen=True)
class Postgres(Target):
    """A PostgreSQL table, created if missing: one row for each key, with `hr_partition` and `hr_offset`."""

    writer = PluginEntry[Any](
        "postgres",
        "PostgreSQL",
        "headrace.connectors.sinks.targets.postgres:PostgresWriter",
        Driver("psycopg", "postgres"),
    )
    example = 'hr.Postgres("env:PG_URL", table="payments")'
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST + " (idempotent upserts)",
        "exactly_once": "rows and offsets in one transaction",
    }

    url: str = field(repr=False, metadata=option("`postgres://HOST:PORT/DATABASE`, or `env:NAME`"))
    table: str = field(metadata=option("the table, such as `payments` or `shop.payments`"))

    def _problem(self) -> str | None:
        return table_problem(self.table) or url_problem(self.url, ("postgres", "postgresql"), "PG_URL")


@dataclass(frozen=True)
class Redis(Target):
    """A Redis hash for each key, named `prefix:key`, with `hr_partition` and `hr_offset`."""

    writer = PluginEntry[Any]("redis", "Redis", "headrace.connectors.sinks.targets.redis:RedisWriter")
    example = 'hr.Redis("env:REDIS_URL", prefix="payments")'
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST + " (idempotent upserts)",
        "exactly_once": "rows and offsets in one Lua script",
    }

    url: str = field(repr=False, metadata=option("`redis://HOST:PORT`, `rediss://…`, `unix://…`, or `env:NAME`"))
    prefix: str = field(metadata=option("the prefix of its Redis keys"))

    def _problem(self) -> str | None:
        if not is_non_empty_text(self.prefix):
            return f'prefix={self.prefix!r} is not a name. Write prefix="payments": keys are then payments:….'
        return url_problem(self.url, ("redis", "rediss", "unix"), "REDIS_URL")


@dataclass(frozen=True)
class Delta(Target):
    """A Delta table in a folder, created if missing: rows are appended or, with `key=`, merged."""

    writer = PluginEntry[Any]("delta", "Delta", "headrace.connectors.sinks.targets.delta:DeltaWriter")
    example = 'hr.Delta("warehouse/payments")'
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST,
        "exactly_once": "rows and offsets in one commit of the table's log",
    }
    needs_key = False

    folder: str = field(metadata=option("the folder of the table"))

    def _problem(self) -> str | None:
        return folder_problem(self.folder, self.example)


@dataclass(frozen=True)
class Iceberg(Target):
    """An Apache Iceberg table, in a folder with its catalogue, a SQLite file; both are created if missing."""

    writer = PluginEntry[Any](
        "iceberg",
        "Iceberg",
        "headrace.connectors.sinks.targets.iceberg:IcebergWriter",
        Driver("pyiceberg", "iceberg"),
    )
    example = 'hr.Iceberg("warehouse", table="payments")'
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST,
        "exactly_once": "rows and offsets in one commit of the table",
    }
    needs_key = False

    folder: str = field(metadata=option("the folder of the catalogue"))
    table: str = field(metadata=option("the table, such as `payments` or `shop.payments`"))

    @property
    def identifier(self) -> str:
        """Its name in the catalogue."""
        return self.table if "." in self.table else f"default.{self.table}"

    def _problem(self) -> str | None:
        return folder_problem(self.folder, self.example) or table_problem(self.table)


@dataclass(frozen=True)
class ClickHouse(Target):
    """A ClickHouse table, written over HTTP, created if missing; deduplicated when read with `FINAL`."""

    writer = PluginEntry[Any](
        "clickhouse", "ClickHouse", "headrace.connectors.sinks.targets.clickhouse:ClickHouseWriter"
    )
    example = 'hr.ClickHouse("env:CLICKHOUSE_URL", table="shop.payments")'
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST,
        "exactly_once": "deduplicated by the table: a row that is written again has the same place, and reads with "
        "`FINAL` return it once",
    }
    needs_key = False

    url: str = field(repr=False, metadata=option("`http://HOST:8123/DATABASE`, `https://…`, or `env:NAME`"))
    table: str = field(metadata=option("the table, such as `payments` or `shop.payments`"))

    def _problem(self) -> str | None:
        return table_problem(self.table) or url_problem(self.url, ("http", "https"), "CLICKHOUSE_URL")


@dataclass(frozen=True)
class Kafka(Target):
    """An existing Kafka topic, on the app's broker or on another."""

    writer = PluginEntry[Any]("kafka", "Kafka", "headrace.connectors.sinks.targets.kafka:KafkaWriter")
    example = 'hr.Kafka("warehouse.payments")'
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST,
        "exactly_once": "deduplicated by the reader: it skips a `headrace.offset` that is not above the last one of "
        "its `headrace.partition`",
    }

    topic: str = field(metadata=option("the topic"))
    broker: str | None = field(
        default=None, repr=False, metadata=option("`HOST:PORT` or `env:NAME`; default: the app's broker")
    )
    format: Literal["json", "avro"] = field(
        default="json", metadata=option('`"json"` (default) or [`"avro"`](schemas.md#producing-with-a-schema)')
    )
    registry: str | None = field(default=None, metadata=option("the address of the schema registry, for Avro"))
    subject: str | None = field(default=None, metadata=option("the subject in the registry; default `TOPIC-value`"))

    @property
    def encoding(self) -> RecordEncoding | None:
        """The format, registry and subject of its records; None for plain JSON."""
        if self.registry is None:
            return None
        return RecordEncoding(self.format, self.registry.rstrip("/"), self.subject or f"{self.topic}-value")

    @property
    def own_broker_topic(self) -> str | None:
        return self.topic if self.broker is None else None

    def _problem(self) -> str | None:
        if not is_non_empty_text(self.topic):
            return f"topic={self.topic!r} is not a topic. Write {self.example}."
        if self.broker is not None and not is_non_empty_text(self.broker):
            return 'broker= is not an address. Write broker="host:9092" or broker="env:KAFKA".'
        return self._format_problem()

    def _format_problem(self) -> str | None:
        if self.format not in ("json", "avro"):
            return f'format={self.format!r}. Write "json" or "avro".'
        if (self.format == "avro") != (self.registry is not None) or (self.registry is None and self.subject):
            return 'format="avro" and registry= go together. Write both, such as registry="http://127.0.0.1:8081".'
        return None if self.registry is None else registry_address_problem(self.registry)


@dataclass(frozen=True)
class Webhook(Target):
    """An HTTPS endpoint that receives lists of rows as JSON; its path is a secret and is never shown."""

    writer = PluginEntry[Any]("webhook", "webhook", "headrace.connectors.sinks.targets.webhook:WebhookWriter")
    example = 'hr.Webhook("env:HOOK_URL")'
    delivery_guarantees: ClassVar[Mapping[Delivery, str]] = {
        "at_most_once": OFFSETS_FIRST,
        "at_least_once": ROWS_FIRST + "; every row has its place, and a retried request the same Idempotency-Key",
    }
    unsupported_deliveries: ClassVar[Mapping[Delivery, str]] = {
        "exactly_once": "a request without a response may or may not have been processed. "
        'Write delivery="at_least_once", and let the receiver deduplicate by place: every row has one'
    }
    takes_key = False
    needs_key = False

    url: str = field(repr=False, metadata=option("`https://…`, or `env:NAME`"))

    def _problem(self) -> str | None:
        if not is_non_empty_text(self.url) or not self.url.startswith((ENV_PREFIX, "https://")):
            return 'url= is not an https address. Write hr.Webhook("env:HOOK_URL") and set that variable.'
        return None


TARGETS: tuple[type[Target], ...] = (Postgres, Redis, Delta, Iceberg, ClickHouse, Kafka, Webhook)

SINK_TARGETS = PluginRegistry("sink target", "sinks.md", [target.writer for target in TARGETS])
