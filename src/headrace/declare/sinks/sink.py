"""Sinks: write a stream, a view's features or a model's predictions to a target, with a declared delivery guarantee.

payments.clean ──▶ sink ──▶ a target, such as a table of PostgreSQL
                    ├──▶ SINK.parked     rows the target refuses, with the reason
SINK.again  ────────┘                    parked rows that are sent again
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headrace.declare.features.view import View
from headrace.declare.names import SINK_RECORD_COLUMNS, consumer_group, query_name, topic_name
from headrace.declare.sinks.sink_source import (
    SinkSource,
    identity_columns,
    ordering_column,
    source_schema,
    source_topic,
)
from headrace.declare.sinks.target import DELIVERIES, Delivery, Target
from headrace.declare.sinks.targets import TARGETS
from headrace.declare.source_location import SourceLocation, locate_caller
from headrace.declare.streams.schema import Schema
from headrace.errors import DeclarationError
from headrace.plugins import join_words

ConflictPolicy = Literal["first", "last"]
PARTITION, OFFSET, VERSION = SINK_RECORD_COLUMNS
_INVALID_TOPIC_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, init=False)
class Sink:
    """The source and target of a sink, its key, its columns, and its delivery guarantee."""

    name: str
    of: SinkSource
    to: Target
    key: tuple[str, ...]
    columns: tuple[str, ...]
    delivery: Delivery
    location: SourceLocation

    def __init__(
        self,
        name: str,
        *,
        of: SinkSource | type,
        to: Target,
        key: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        delivery: Delivery = "at_least_once",
    ) -> None:
        location = locate_caller()
        where = _require_valid_name(name, location)
        source = _require_source(of, where)
        _require_target(to, where)
        _require_delivery(to, delivery, where)
        keys = _parse_key(source, to, key, where)
        values = {
            "name": name,
            "of": source,
            "to": to,
            "key": keys,
            "columns": _parse_columns(source_schema(source), columns, keys, where),
            "delivery": delivery,
            "location": location,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    @property
    def schema(self) -> Schema:
        """The columns that are written, in their order."""
        all_columns = source_schema(self.of)
        return Schema(tuple(all_columns.column(name, self.name) for name in self.columns))

    @property
    def conflict_policy(self) -> ConflictPolicy:
        """Which of several rows with one key is kept: the first of one event, the last of one entity."""
        is_keyed_by_event = not isinstance(self.of, View) and set(identity_columns(self.of)) <= set(self.key)
        return "first" if is_keyed_by_event else "last"

    @property
    def source_topic(self) -> str:
        """The topic it reads."""
        return source_topic(self.of)

    @property
    def slug(self) -> str:
        """Its name as used in topics and groups."""
        return _INVALID_TOPIC_CHARACTERS.sub("-", self.name).strip("-")

    @property
    def parked(self) -> str:
        return topic_name(self.slug, "parked")

    @property
    def again(self) -> str:
        return topic_name(self.slug, "again")

    @property
    def query(self) -> str:
        """The name under which its lag is reported."""
        return query_name(self.slug, "sink")

    @property
    def group(self) -> str:
        """The consumer group of its instances."""
        return consumer_group("sink", self.slug)


def _require_valid_name(name: object, location: SourceLocation) -> str:
    if (
        not isinstance(name, str)
        or not name.isprintable()
        or len(name) > 100
        or not _INVALID_TOPIC_CHARACTERS.sub("", name)
    ):
        raise DeclarationError(
            f'{location}: Sink {name!r}: name it in at most 100 printable characters, as "payments to the warehouse".'
        )
    return f"{location}: Sink {name!r}"


def _require_source(source: object, where: str) -> SinkSource:
    if not isinstance(source, SinkSource):
        raise DeclarationError(f"{where}: of={source!r} is neither a stream nor a view nor a model. Write of=payments.")
    return source


def _require_target(target: object, where: str) -> None:
    if not isinstance(target, Target):
        others = join_words([f"hr.{kind.__name__}" for kind in TARGETS[1:]])
        raise DeclarationError(f"{where}: to= is no target. Write to={TARGETS[0].example}, {others}.")


def _require_delivery(target: Target, delivery: Delivery, where: str) -> None:
    if delivery not in get_args(Delivery):
        raise DeclarationError(f"{where}: delivery={delivery!r}. Write one of {', '.join(map(repr, DELIVERIES))}.")
    if delivery in target.unsupported_deliveries:
        raise DeclarationError(
            f"{where}: delivery={delivery!r} to a {target.kind}: {target.unsupported_deliveries[delivery]}."
        )


def _parse_key(source: SinkSource, target: Target, key: object, where: str) -> tuple[str, ...]:
    if key is None:
        return identity_columns(source) if target.needs_key else ()
    if not target.takes_key:
        raise DeclarationError(f"{where}: key={key!r}, and a {target.kind} has no keys. Leave key= out.")
    keys = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else ()
    for name in keys:
        source_schema(source).column(name, f"{where}: key")
    if isinstance(source, View) and set(keys) != set(source.by):
        raise DeclarationError(
            f"{where}: key={key!r}: a row of {source.name} is one entity's. Write key={list(source.by)!r}, or "
            f"leave it out."
        )
    if not keys or not (set(identity_columns(source)) <= set(keys) or ordering_column(source) in keys):
        raise DeclarationError(
            f"{where}: key={key!r}: rows of one such key come in no certain order, so none of them is the last. "
            f"Write key={ordering_column(source)!r} for the last of each, or leave it out for a row of each "
            f"{' and '.join(identity_columns(source))}."
        )
    return keys


def _parse_columns(schema: Schema, columns: Sequence[str] | None, key: Sequence[str], where: str) -> tuple[str, ...]:
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
