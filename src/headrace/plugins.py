"""Registries of connectors: an entry names one class in one file, which is imported when it is first used.

A registry is the only place that lists its connectors. All else (options, the extra to install, what `headrace doctor`
checks, help texts, rows of the docs) is asked of the class that an entry names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Generic, TypeVar

from headrace.errors import HeadraceError

PluginT = TypeVar("PluginT")


class DriverMissing(HeadraceError):
    """The package that a connector needs is not installed."""


class UnknownPlugin(HeadraceError):
    """A registry has no entry of that name."""


@dataclass(frozen=True)
class PluginEntry(Generic[PluginT]):
    """The name of a connector, as users write it, its class as `module:Class`, and the extra that installs its driver.

    >>> PluginEntry("ordered", "collections:OrderedDict").load("An example").__name__
    'OrderedDict'
    """

    name: str
    path: str
    extra: str | None = None

    def load(self, required_by: str) -> type[PluginT]:
        """Import the class; where its driver is missing, the error says who needs it and how to install it."""
        module_name, _, class_name = self.path.partition(":")
        try:
            plugin: type[PluginT] = getattr(import_module(module_name), class_name)
        except ModuleNotFoundError as error:
            if self.extra is None:
                raise
            raise DriverMissing(
                f"{required_by} needs {error.name}. Install it: pip install 'headrace[{self.extra}]'."
            ) from error
        return plugin


class PluginRegistry(Generic[PluginT]):
    """The connectors of one kind, by name and in the order of the docs.

    >>> shapes = PluginRegistry[dict]("shape", [PluginEntry("ordered", "collections:OrderedDict")])
    >>> shapes.names, shapes["ordered"].extra
    (('ordered',), None)
    >>> shapes["orderd"]
    Traceback (most recent call last):
    ...
    headrace.plugins.UnknownPlugin: 'orderd' is not a shape. Did you mean 'ordered'? There are: ordered.
    """

    def __init__(self, kind: str, entries: Sequence[PluginEntry[PluginT]]) -> None:
        self.kind = kind
        self._entries = {entry.name: entry for entry in entries}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def __iter__(self) -> Iterator[PluginEntry[PluginT]]:
        return iter(self._entries.values())

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> PluginEntry[PluginT]:
        if name in self._entries:
            return self._entries[name]
        closest = get_close_matches(name, self._entries, 1)
        suggestion = f" Did you mean {closest[0]!r}?" if closest else ""
        raise UnknownPlugin(f"{name!r} is not a {self.kind}.{suggestion} There are: {', '.join(self._entries)}.")


def import_plugin(package: str, plugin: str, required_by: str, name: str | None = None) -> Any:
    """Import the module of a plugin, called as the plugin is unless `name` says otherwise.

    Where the plugin's extra is not installed, says who needs it and how to install it.
    """
    try:
        return import_module(f"headrace.{package}.{name or plugin}")
    except ModuleNotFoundError as error:
        raise DriverMissing(
            f"{required_by} needs {error.name}. Install it: pip install 'headrace[{plugin}]'."
        ) from error
