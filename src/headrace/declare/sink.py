"""Sinks: a stream, its features, or what a model says of it, brought elsewhere, as often as was declared.

payments.clean ──▶ sink ──▶ Postgres, Redis, Delta, Iceberg, ClickHouse, Kafka, a webhook
                    ├──▶ SINK.parked     rows the target refuses, with the reason
SINK.again  ────────┘                    and those of them that are sent again
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headrace.declare.names import OF_SINK_RECORDS, consumer_group, query_name, topic_name
from headrace.declare.schema import Schema
from headrace.declare.source_lines import Written, written_here
from headrace.declare.sunk import Sunk, identity_of, order_of, schema_of, topic_of
from headrace.declare.targets import DELIVERIES, Delivery, Target
from headrace.declare.views import View
from headrace.errors import DeclarationError

Wins = Literal["first", "last"]
PARTITION, OFFSET, VERSION = OF_SINK_RECORDS
_NOT_OF_A_TOPIC = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, init=False)
class Sink:
    """What is brought where, by which key, which of its columns, and how often each row arrives."""

    name: str
    of: Sunk
    to: Target
    key: tuple[str, ...]
    columns: tuple[str, ...]
    delivery: Delivery
    written: Written

    def __init__(
        self,
        name: str,
        *,
        of: Sunk | type,
        to: Target,
        key: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        delivery: Delivery = "at_least_once",
    ) -> None:
        written = written_here()
        where = _where(name, written)
        sunk = _sunk(of, where)
        _require_target(to, where)
        _require_delivery(to, delivery, where)
        keys = _key(sunk, to, key, where)
        values = {
            "name": name,
            "of": sunk,
            "to": to,
            "key": keys,
            "columns": _columns(schema_of(sunk), columns, keys, where),
            "delivery": delivery,
            "written": written,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    @property
    def schema(self) -> Schema:
        """The columns that are brought, in their order."""
        every = schema_of(self.of)
        return Schema(tuple(every.column(name, self.name) for name in self.columns))

    @property
    def wins(self) -> Wins:
        """Which of several rows with one key stays: the first of one event, the last of one entity."""
        is_of_events = not isinstance(self.of, View) and set(identity_of(self.of)) <= set(self.key)
        return "first" if is_of_events else "last"

    @property
    def topic(self) -> str:
        """What it reads."""
        return topic_of(self.of)

    @property
    def slug(self) -> str:
        """Its name, as topics and groups can have it."""
        return _NOT_OF_A_TOPIC.sub("-", self.name).strip("-")

    @property
    def parked(self) -> str:
        return topic_name(self.slug, "parked")

    @property
    def again(self) -> str:
        return topic_name(self.slug, "again")

    @property
    def query(self) -> str:
        """What its lag is told of."""
        return query_name(self.slug, "sink")

    @property
    def group(self) -> str:
        """The consumer group that its copies share."""
        return consumer_group("sink", self.slug)


def _where(name: object, written: Written) -> str:
    if not isinstance(name, str) or not name.isprintable() or len(name) > 100 or not _NOT_OF_A_TOPIC.sub("", name):
        raise DeclarationError(
            f'{written}: Sink {name!r}: name it in at most 100 printable characters, as "payments to the warehouse".'
        )
    return f"{written}: Sink {name!r}"


def _sunk(of: object, where: str) -> Sunk:
    if not isinstance(of, Sunk):
        raise DeclarationError(f"{where}: of={of!r} is neither a stream nor a view nor a model. Write of=payments.")
    return of


def _require_target(to: object, where: str) -> None:
    if not isinstance(to, Target):
        raise DeclarationError(
            f'{where}: to= is no target. Write to=hr.Postgres("env:PG_URL", table="…"), hr.Redis, hr.Delta, '
            "hr.Iceberg, hr.ClickHouse, hr.Kafka or hr.Webhook."
        )


def _require_delivery(to: Target, delivery: Delivery, where: str) -> None:
    if delivery not in get_args(Delivery):
        raise DeclarationError(f"{where}: delivery={delivery!r}. Write one of {', '.join(map(repr, DELIVERIES))}.")
    if delivery in to.refuses:
        raise DeclarationError(f"{where}: delivery={delivery!r} to a {to.kind}: {to.refuses[delivery]}.")


def _key(of: Sunk, to: Target, key: object, where: str) -> tuple[str, ...]:
    if key is None:
        return identity_of(of) if to.needs_key else ()
    if not to.takes_key:
        raise DeclarationError(f"{where}: key={key!r}, and a {to.kind} has no keys. Leave key= out.")
    keys = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else ()
    for name in keys:
        schema_of(of).column(name, f"{where}: key")
    if isinstance(of, View) and set(keys) != set(of.by):
        raise DeclarationError(
            f"{where}: key={key!r}: a row of {of.name} is one entity's. Write key={list(of.by)!r}, or leave it out."
        )
    if not keys or not (set(identity_of(of)) <= set(keys) or order_of(of) in keys):
        raise DeclarationError(
            f"{where}: key={key!r}: rows of one such key come in no certain order, so none of them is the last. "
            f"Write key={order_of(of)!r} for the last of each, or leave it out for a row of each "
            f"{' and '.join(identity_of(of))}."
        )
    return keys


def _columns(schema: Schema, columns: Sequence[str] | None, key: Sequence[str], where: str) -> tuple[str, ...]:
    if columns is None:
        chosen = schema.names
    elif isinstance(columns, str) or not columns:
        raise DeclarationError(f'{where}: columns={columns!r}. Write a list, such as columns=["card", "amount"].')
    else:
        chosen = tuple(schema.column(name, f"{where}: columns").name for name in columns)
    missing = [name for name in key if name not in chosen]
    if missing:
        raise DeclarationError(f"{where}: columns= lacks {missing[0]!r}, which is of its key. Add it.")
    for name in chosen:
        if name in (PARTITION, OFFSET, VERSION) or chosen.count(name) > 1:
            raise DeclarationError(f"{where}: there would be two columns {name!r}. Rename one, or leave it out.")
    return chosen
