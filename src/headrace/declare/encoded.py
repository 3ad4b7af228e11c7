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
ENV = "env:"


@dataclass(frozen=True)
class Encoded:
    """A format, the registry that has its schemas, and the subject they are versions of.

    `compatibility` is what the declared schema has to be to those versions; None: what the registry says.
    """

    format: Format
    registry: str
    subject: str
    compatibility: Compatibility | None = None


@dataclass(frozen=True)
class Column:
    """A column as a registered schema has it: its Spark type, and other names it may be found under.

    `default` stands for it where it is absent, as JSON has it; one that `is_required` may not be.
    """

    name: str
    type: str
    default: str | float | bool | None = None
    aliases: tuple[str, ...] = ()
    is_required: bool = False


@dataclass(frozen=True)
class Subject:
    """The columns of a registered schema, and which version of its subject that is."""

    version: int
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


Knows = Callable[[Encoded], Subject]
_KNOWS: ContextVar[Knows | None] = ContextVar("knows", default=None)


@contextmanager
def schemas_known_by(knows: Knows) -> Iterator[None]:
    """Until its end, streams that leave their schema out are told it by `knows`."""
    before = _KNOWS.set(knows)
    try:
        yield
    finally:
        _KNOWS.reset(before)


def subject_of(encoded: Encoded | None, where: str) -> Subject:
    """What the registry has of a stream that leaves its schema out."""
    if encoded is None:
        raise DeclarationError(
            f'{where}: schema= is missing. Write schema="card string, at timestamp", or name the registry that has it: '
            'format="avro", registry="http://…".'
        )
    knows = _KNOWS.get()
    if knows is None:
        raise DeclarationError(
            f"{where}: schema= is left out, and nobody here asks the registry for {encoded.subject!r} as the "
            "`headrace` commands do. Import it within headrace.log.schemas.subjects.asked_for(STATE), or write schema=."
        )
    return knows(encoded)


def encoded_of(name: str, format: object, registry: object, subject: object, compatibility: object) -> Encoded | None:
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
    address = _address(registry, where)
    return Encoded(format, address, subject or f"{name}-value", compatibility)  # type: ignore[arg-type]  # seen above


def address_problem(registry: object) -> str | None:
    """What is wrong with a registry's address, or the variable that has it; a password has no place in code."""
    remedy = 'Write registry="http://127.0.0.1:8081", or registry="env:REGISTRY_URL" and set that variable.'
    if not isinstance(registry, str) or not registry.startswith((ENV, "http://", "https://")):
        return f"registry= is no address. {remedy}"
    if "@" in urlsplit(registry).netloc:
        return f"registry= has a password, and code is no place for one. {remedy}"
    return None


def _address(registry: object, where: str) -> str:
    problem = address_problem(registry)
    if problem is not None:
        raise DeclarationError(f"{where}: {problem}")
    return str(registry).rstrip("/")
