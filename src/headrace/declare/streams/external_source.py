"""The base class of external sources, logs other than Kafka: their options, their splits, and their reader."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from headrace.errors import DeclarationError
from headrace.plugins import PluginEntry

ENV_PREFIX, FILE_PREFIX = "env:", "file:"


@dataclass(frozen=True)
class ExternalSource:
    """A log with numbered messages; its class variables are its entry in the registry, its fields the options."""

    reader: ClassVar[PluginEntry[Any]]  # a SourceReader
    example: ClassVar[str]  # as users write it

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise DeclarationError(f"{type(self).__name__}: {problem}")

    @property
    def kind(self) -> str:
        return self.reader.name

    @property
    def display_name(self) -> str:
        """Its name, without its address."""
        raise NotImplementedError

    @property
    def splits(self) -> tuple[Self, ...]:
        """The parts that are numbered and read separately."""
        return (self,)

    def _problem(self) -> str | None:
        """What is wrong with its options, and what to write instead."""
        raise NotImplementedError


def is_matching_text(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
