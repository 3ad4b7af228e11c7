"""Encodings of a stream's records: plain JSON, or a format whose schemas are in a schema registry.

    byte   0      1 2 3 4      5 …
           magic  schema id    payload                  the wire format every Confluent-compatible client writes
           0      big-endian   Avro, Protobuf or JSON

Only the registry maps ids to schemas. A declaration opens no connection: the loader of an app provides the lookup for
streams that leave their schema out, for as long as it loads.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlsplit

from headrace.errors import DeclarationError

Format = Literal["json", "avro", "protobuf"]
Compatibility = Literal[
    "backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive", "none"
]
ENV_PREFIX = "env:"


@dataclass(frozen=True)
class RecordEncoding:
    """A format, the schema registry, and the subject of the stream's schemas.

    `compatibility` is the level the declared schema must meet; None is the registry's own level.
    """

    format: Format
    registry: str
    subject: str
    compatibility: Compatibility | None = None


@dataclass(frozen=True)
class RegisteredColumn:
    """A column of a registered schema: its Spark type, and its aliases.

    `default` is its value where it is absent, in JSON; a column that `is_required` may not be absent.
    """

    name: str
    type: str
    default: str | float | bool | None = None
    aliases: tuple[str, ...] = ()
    is_required: bool = False


@dataclass(frozen=True)
class RegisteredSchema:
    """The columns of a registered schema, and its version in its subject."""

    version: int
    columns: tuple[RegisteredColumn, ...]

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


SchemaLookup = Callable[[RecordEncoding], RegisteredSchema]
_SCHEMA_LOOKUP: ContextVar[SchemaLookup | None] = ContextVar("schema_lookup", default=None)


@contextmanager
def use_schema_lookup(lookup: SchemaLookup) -> Iterator[None]:
    """Until its end, streams that leave their schema out get it from `lookup`."""
    reset_token = _SCHEMA_LOOKUP.set(lookup)
    try:
        yield
    finally:
        _SCHEMA_LOOKUP.reset(reset_token)


def look_up_schema(encoding: RecordEncoding | None, where: str) -> RegisteredSchema:
    """The registered schema of a stream that leaves its schema out."""
    if encoding is None:
        raise DeclarationError(
            f'{where}: schema= is missing. Write schema="card string, at timestamp", or name the registry that has it: '
            'format="avro", registry="http://…".'
        )
    lookup = _SCHEMA_LOOKUP.get()
    if lookup is None:
        raise DeclarationError(
            f"{where}: schema= is left out, and no registry lookup for {encoding.subject!r} is active, as in the "
            "`headrace` commands. Import it within "
            "headrace.kafka.schema_registry.schema_lookup.use_registry_lookup(STATE), or write schema=."
        )
    return lookup(encoding)


def parse_encoding(
    name: str, format: object, registry: object, subject: object, compatibility: object
) -> RecordEncoding | None:
    """The encoding that a stream's settings declare; None for JSON without a registry."""
    where = f"Stream {name!r}"
    if format not in get_args(Format):
        raise DeclarationError(f'{where}: format={format!r}. Write "json", "avro" or "protobuf".')
    if compatibility is not None and compatibility not in get_args(Compatibility):
        levels = ", ".join(map(repr, get_args(Compatibility)))
        raise DeclarationError(f"{where}: compatibility={compatibility!r}. Write one of {levels}.")
    if registry is None:
        if format != "json" or subject is not None or compatibility is not None:
            raise DeclarationError(
                f'{where}: format={format!r} needs a registry. Write registry="http://127.0.0.1:8081", or "env:NAME".'
            )
        return None
    if subject is not None and (not isinstance(subject, str) or not subject):
        raise DeclarationError(f'{where}: subject={subject!r} is no name. Write subject="{name}-value".')
    address = _parse_registry_address(registry, where)
    return RecordEncoding(format, address, subject or f"{name}-value", compatibility)  # type: ignore[arg-type]  # seen above


def registry_address_problem(registry: object) -> str | None:
    """Say what is wrong with a registry's address, or the variable that holds it; code must not contain a password."""
    remedy = 'Write registry="http://127.0.0.1:8081", or registry="env:REGISTRY_URL" and set that variable.'
    if not isinstance(registry, str) or not registry.startswith((ENV_PREFIX, "http://", "https://")):
        return f"registry= is no address. {remedy}"
    if "@" in urlsplit(registry).netloc:
        return f"registry= has a password, and code is no place for one. {remedy}"
    return None


def _parse_registry_address(registry: object, where: str) -> str:
    problem = registry_address_problem(registry)
    if problem is not None:
        raise DeclarationError(f"{where}: {problem}")
    return str(registry).rstrip("/")
