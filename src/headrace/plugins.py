"""Registries of connectors: an entry names one class in one file, which is imported when it is first used.

A registry is the only place that lists its connectors. All else (their options, the extra to install, what
`headrace doctor` checks, help texts, rows of the docs) comes from its entries.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.errors import HeadraceError

OPTION_DESCRIPTION = "description"
PluginT = TypeVar("PluginT")


class Driver(NamedTuple):
    """The module that a connector requires, and the extra of Headrace that installs it."""

    module: str
    extra: str

    @property
    def install_command(self) -> str:
        return f"pip install 'headrace[{self.extra}]'"

    @property
    def is_installed(self) -> bool:
        return find_spec(self.module) is not None


class DriverMissing(HeadraceError):
    """The package that a connector needs is not installed."""

    def __init__(self, required_by: str, module: str, driver: Driver) -> None:
        self.problem, self.install_command = f"{required_by} needs {module}", driver.install_command
        super().__init__(f"{self.problem}. Install it: {self.install_command}.")


class UnknownPlugin(HeadraceError):
    """A registry has no entry of a name."""


@dataclass(frozen=True)
class PluginEntry(Generic[PluginT]):
    """A connector: its name for users, its title in texts, its class as `module:Class`, and its driver.

    >>> PluginEntry("ordered", "ordered dictionaries", "collections:OrderedDict").load("An example").__name__
    'OrderedDict'
    """

    name: str
    title: str
    path: str
    driver: Driver | None = None

    def load(self, required_by: str) -> type[PluginT]:
        """Import the class; if its driver is missing, the error says what needs it and how to install it."""
        if self.driver is not None and not self.driver.is_installed:
            raise DriverMissing(required_by, self.driver.module, self.driver)
        module_name, _, class_name = self.path.partition(":")
        try:
            plugin: type[PluginT] = getattr(import_module(module_name), class_name)
        except ModuleNotFoundError as error:
            if self.driver is None or (error.name or "").startswith("headrace"):
                raise
            raise DriverMissing(required_by, error.name or self.driver.module, self.driver) from error
        return plugin


EntryT = TypeVar("EntryT", bound=PluginEntry[Any])


class PluginRegistry(Generic[EntryT]):
    """The connectors of one kind, by name and in the order of the docs; `page` is the one that describes them.

    >>> shapes = PluginRegistry("shape", "shapes.md", [PluginEntry("ordered", "in order", "collections:OrderedDict")])
    >>> shapes.names, shapes["ordered"].driver
    (('ordered',), None)
    >>> shapes["orderd"]
    Traceback (most recent call last):
    ...
    headrace.plugins.UnknownPlugin: 'orderd' is not a shape. Did you mean 'ordered'? There are: ordered.
    """

    def __init__(self, kind: str, page: str, entries: Sequence[EntryT]) -> None:
        self.kind, self.page = kind, page
        self._entries = {entry.name: entry for entry in entries}
        if len(self._entries) < len(entries):
            raise AssertionError(f"two connectors of kind {kind!r} have one name: {[entry.name for entry in entries]}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self._entries.values())

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> EntryT:
        if name in self._entries:
            return self._entries[name]
        closest = get_close_matches(name, self._entries, 1)
        suggestion = f" Did you mean {closest[0]!r}?" if closest else ""
        raise UnknownPlugin(f"{name!r} is not a {self.kind}.{suggestion} There are: {', '.join(self._entries)}.")


def option(description: str) -> Mapping[str, str]:
    """The metadata of a field that users set: its description in the docs."""
    return {OPTION_DESCRIPTION: description}


def join_words(words: Sequence[str]) -> str:
    """Words joined as the choices in a sentence.

    >>> join_words(["memory", "redis", "cassandra"]), join_words(["mlflow"])
    ('memory, redis or cassandra', 'mlflow')
    """
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
