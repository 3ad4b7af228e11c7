"""The contract of every connector; registering one adds it to these tests."""

import importlib.metadata
import inspect
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.connectors.registries import CONNECTOR_REGISTRIES, connector_drivers
from headrace.connectors.sinks.writer import SinkWriter
from headrace.connectors.sources.source_reader import SourceReader
from headrace.declare.sinks import targets
from headrace.declare.sinks.target import Target
from headrace.declare.sinks.targets import SINK_TARGETS, TARGETS
from headrace.declare.streams import external_sources
from headrace.declare.streams.external_source import ExternalSource
from headrace.declare.streams.external_sources import EXTERNAL_SOURCES, STREAM_SOURCES
from headrace.lake.formats.registry import LAKE_FORMATS
from headrace.lake.formats.table_format import TableFormat
from headrace.models.versions.model_registry import MODEL_REGISTRIES, ModelRegistry, require_model_registry
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.registry import MEMORY, ONLINE_STORES, UnknownStoreError, find_store
from headrace.online_store.shared_store import SharedStore
from headrace.plugins import OPTION_DESCRIPTION, DriverMissing, PluginEntry, PluginRegistry, UnknownPlugin

BASES: dict[str, type] = {
    SINK_TARGETS.kind: SinkWriter,
    ONLINE_STORES.kind: SharedStore,
    LAKE_FORMATS.kind: TableFormat,
    MODEL_REGISTRIES.kind: ModelRegistry,
}
ENTRIES = [
    pytest.param(registry.kind, entry, id=f"{registry.kind} {entry.name}")
    for registry in CONNECTOR_REGISTRIES
    for entry in registry
]
WITH_DRIVER = [one for one in ENTRIES if one.values[1].driver is not None]  # type: ignore[attr-defined]
DECLARED = [*TARGETS, *EXTERNAL_SOURCES]
PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())


@pytest.mark.parametrize(("kind", "entry"), ENTRIES)
def test_its_class_is_imported_and_is_whole(kind: str, entry: PluginEntry[Any]) -> None:
    if entry.driver is not None:
        pytest.importorskip(entry.driver.module, reason=f"needs headrace[{entry.driver.extra}]")
    loaded = entry.load("A test")
    assert not inspect.isabstract(loaded)
    if entry is MEMORY:
        assert loaded is MemoryStore  # in the server's own process, so it has no server to speak to
    elif kind == STREAM_SOURCES.kind:
        asked = {name for name, _ in inspect.getmembers(SourceReader, inspect.isfunction) if not name.startswith("_")}
        assert asked <= set(dir(loaded))
    else:
        assert issubclass(loaded, BASES[kind])


@pytest.mark.parametrize(("kind", "entry"), WITH_DRIVER)
def test_without_its_driver_the_error_says_who_needs_it_and_how_to_install_it(
    kind: str, entry: PluginEntry[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert entry.driver is not None
    monkeypatch.setitem(sys.modules, entry.driver.module, None)
    command = re.escape(f"pip install 'headrace[{entry.driver.extra}]'")
    with pytest.raises(DriverMissing, match=rf"app\.py:3: {kind} needs {entry.driver.module}\. Install it: {command}"):
        entry.load(f"app.py:3: {kind}")


@pytest.mark.parametrize("extra", connector_drivers())
def test_the_extra_of_a_driver_installs_its_module(extra: str) -> None:
    driver = connector_drivers()[extra]
    required = {
        re.split(r"[\[~=<>]", requirement)[0] for requirement in PYPROJECT["project"]["optional-dependencies"][extra]
    }
    pytest.importorskip(driver.module, reason=f"needs headrace[{extra}]")
    assert required & set(importlib.metadata.packages_distributions()[driver.module])


@pytest.mark.parametrize("registry", CONNECTOR_REGISTRIES, ids=lambda registry: registry.kind)
def test_a_registry_refuses_two_of_one_name_and_says_which_there_are(registry: PluginRegistry[Any]) -> None:
    first = next(iter(registry))
    with pytest.raises(AssertionError, match="one name"):
        PluginRegistry("kind", "page.md", [*registry, first])
    names = ", ".join(map(re.escape, registry.names))
    with pytest.raises(UnknownPlugin, match=f"is not a {registry.kind}.*There are: {names}"):
        registry["no such thing"]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
def test_a_declared_connector_is_exported_and_its_example_works(declared: type[Any]) -> None:
    assert getattr(hr, declared.__name__) is declared
    assert declared.__name__ in hr.__all__
    example = eval(declared.example, {"hr": hr})
    assert type(example) is declared
    assert "s3cret" not in repr(example)


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
def test_each_option_of_a_declared_connector_says_what_to_write(declared: type[Any]) -> None:
    assert [one.name for one in fields(declared) if not one.metadata.get(OPTION_DESCRIPTION)] == []


@pytest.mark.parametrize(
    ("module", "base", "registered"),
    [(targets, Target, TARGETS), (external_sources, ExternalSource, EXTERNAL_SOURCES)],
    ids=["targets", "sources"],
)
def test_what_is_declared_in_a_registrys_file_is_registered_and_exported(
    module: Any, base: type, registered: tuple[type, ...]
) -> None:
    written = {one for one in vars(module).values() if isinstance(one, type) and issubclass(one, base)} - {base}
    assert written == set(registered)
    assert sorted(one.__name__ for one in written) == sorted(module.__all__)


def test_a_store_is_found_by_each_of_its_schemes_and_an_unknown_one_is_told_of_all() -> None:
    schemes = [scheme for entry in ONLINE_STORES for scheme in entry.schemes]
    assert len(schemes) == len(set(schemes))
    for entry in ONLINE_STORES:
        for scheme in entry.schemes:
            assert find_store(f"{scheme}://127.0.0.1:7/x" if entry.is_shared else scheme) is entry
        with pytest.raises(UnknownStoreError, match=re.escape(entry.url_form)):
            find_store("postgres://me:s3cret@127.0.0.1")


def test_a_model_registry_is_found_by_the_beginning_of_its_setting() -> None:
    for entry in MODEL_REGISTRIES:
        for setting in (entry.name, *entry.settings, entry.address_example):
            assert require_model_registry(setting) is entry


def test_to_know_every_connector_no_driver_is_imported() -> None:
    code = """
import sys
from headrace.connectors.registries import connector_drivers
print([driver.module for driver in connector_drivers().values() if driver.module in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
