"""The base class of sink targets: their options, delivery guarantees and writer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from headrace.declare.source_location import locate_caller
from headrace.declare.streams.encoding import RecordEncoding
from headrace.declare.streams.external_source import ENV_PREFIX
from headrace.errors import DeclarationError
from headrace.plugins import PluginEntry

Delivery = Literal["at_most_once", "at_least_once", "exactly_once"]
DELIVERIES: tuple[Delivery, ...] = ("at_most_once", "at_least_once", "exactly_once")
OFFSETS_FIRST = "offsets first, then rows: a crash in between loses rows, none is duplicated"
ROWS_FIRST = "rows first, then offsets: after a crash in between, rows are written again"


@dataclass(frozen=True)
class Target:
    """A system that a sink writes to; its class variables are its entry in the registry, its fields the options.

    `delivery_guarantees` says how each delivery is kept, `unsupported_deliveries` what to do instead of one that cannot
    be. One that takes a key keeps one row of each; `needs_key` is said of those that cannot do without.
    """

    writer: ClassVar[PluginEntry[Any]]  # a SinkWriter
    example: ClassVar[str]  # as users write it
    delivery_guarantees: ClassVar[Mapping[Delivery, str]]
    unsupported_deliveries: ClassVar[Mapping[Delivery, str]] = {}
    takes_key: ClassVar[bool] = True
    needs_key: ClassVar[bool] = True

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise DeclarationError(f"{locate_caller(2)}: {type(self).__name__}: {problem}")

    @property
    def kind(self) -> str:
        return self.writer.name

    @property
    def encoding(self) -> RecordEncoding | None:
        """Which registry has the schema of what is written, where it is not plain JSON or columns."""
        return None

    @property
    def own_broker_topic(self) -> str | None:
        """The topic of the app's own broker that is written to."""
        return None

    def _problem(self) -> str | None:
        """What is wrong with it as it is written, and what to write instead."""
        raise NotImplementedError


def is_non_empty_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def table_problem(table: object) -> str | None:
    """What is wrong with the name of a table."""
    if not is_non_empty_text(table) or not all(str(table).split(".")):
        return f'table={table!r} is no name. Write table="payments" or table="shop.payments".'
    return None


def folder_problem(folder: object, example: str) -> str | None:
    """What is wrong with a folder of this machine."""
    if not is_non_empty_text(folder) or "://" in str(folder):
        return f"folder={folder!r} is no folder. Write {example}."
    return None


def url_problem(url: object, schemes: tuple[str, ...], variable: str) -> str | None:
    """An address or the variable that has it; a password has no place in code."""
    remedy = f'Write url="{ENV_PREFIX}{variable}" and set that variable.'
    if not isinstance(url, str) or not url.startswith((ENV_PREFIX, *(f"{scheme}://" for scheme in schemes))):
        return f"url= is no address of {schemes[0]}://. {remedy}"
    has_password = ":" in urlsplit(url).netloc.rpartition("@")[0] or "password=" in url
    return f"url= has a password, and code is no place for one. {remedy}" if has_password else None
