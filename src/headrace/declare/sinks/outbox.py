"""Outboxes: tables to which services write events in the transaction of their changes."""

from dataclasses import dataclass, field

from headrace.declare.sinks.target import url_problem
from headrace.declare.source_location import SourceLocation, locate_caller, locate_declaration
from headrace.errors import DeclarationError


@dataclass(frozen=True)
class Outbox:
    """A PostgreSQL table whose rows are relayed to the app's streams; `headrace outbox --print-sql` prints its DDL."""

    url: str = field(repr=False)
    table: str = "outbox"
    location: SourceLocation = field(default_factory=locate_declaration, compare=False, repr=False, init=False)

    def __post_init__(self) -> None:
        problem = url_problem(self.url, ("postgres", "postgresql"), "PG_URL")
        if not all(part.strip() for part in str(self.table).split(".")):
            problem = f'table={self.table!r} is no name. Write table="outbox" or table="shop.outbox".'
        if problem is not None:
            raise DeclarationError(f"{locate_caller(2)}: Outbox: {problem}")

    @property
    def name(self) -> str:
        return self.table
