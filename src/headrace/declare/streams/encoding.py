"""How a stream's bytes are written: plain JSON, or in a format whose schemas a registry keeps.

    byte   0      1 2 3 4      5 …
           magic  schema id    payload                  the wire format every Confluent-compatible client writes
           0      big-endian   Avro, Protobuf or JSON

Which schema an id stands for only the registry knows. A declaration asks nobody: whoever loads an app says, for as long
as it is loaded, who knows the schemas of those streams that leave theirs out.
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
    """A format, the registry that has its schemas, and the subject they are versions of.

    `compatibility` is what the declared schema has to be to those versions; None: what the registry says.
    """

    format: Format
    registry: str
    subject: str
    compatibility: Compatibility | None = None


@dataclass(frozen=True)
class RegisteredColumn:
    """A column as a registered schema has it: its Spark type, and other names it may be found under.

    `default` stands for it where it is absent, as JSON has it; one that `is_required` may not be.
    """

    name: str
    type: str
    default: str | float | bool | None = None
    aliases: tuple[str, ...] = ()
    is_required: bool = False


@dataclass(frozen=True)
class RegisteredSchema:
    """The columns of a registered schema, and which version of its subject that is."""

    version: int
    columns: tuple[RegisteredColumn, ...]

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


SchemaLookup = Callable[[RecordEncoding], RegisteredSchema]
_SCHEMA_LOOKUP: ContextVar[SchemaLookup | None] = ContextVar("knows", default=None)


@contextmanager
def use_schema_lookup(lookup: SchemaLookup) -> Iterator[None]:
    """Until its end, streams that leave their schema out are told it by `knows`."""
    reset_token = _SCHEMA_LOOKUP.set(lookup)
    try:
        yield
    finally:
        _SCHEMA_LOOKUP.reset(reset_token)


def look_up_schema(encoding: RecordEncoding | None, where: str) -> RegisteredSchema:
    """What the registry has of a stream that leaves its schema out."""
    if encoding is None:
        raise DeclarationError(
            f'{where}: schema= is missing. Write schema="card string, at timestamp", or name the registry that has it: '
            'format="avro", registry="http://…".'
        )
    lookup = _SCHEMA_LOOKUP.get()
    if lookup is None:
        raise DeclarationError(
            f"{where}: schema= is left out, and nobody here asks the registry for {encoding.subject!r} as the "
            "`headrace` commands do. Import it within headrace.kafka.schema_registry.subjects.asked_for(STATE), or "
            "write schema=."
        )
    return lookup(encoding)


def parse_encoding(
    name: str, format: object, registry: object, subject: object, compatibility: object
) -> RecordEncoding | None:
    """How a stream is written as its settings say; None where it is JSON without a registry."""
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
    """What is wrong with a registry's address, or the variable that has it; a password has no place in code."""
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
