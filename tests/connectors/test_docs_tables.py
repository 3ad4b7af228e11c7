"""The docs' lists of connectors are generated from the registries, or compared with them."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from headrace.connectors.registries import CONNECTOR_REGISTRIES
from headrace.declare.sinks.target import DELIVERIES, Target
from headrace.declare.sinks.targets import SINK_TARGETS, TARGETS
from headrace.declare.streams.external_sources import EXTERNAL_SOURCES, STREAM_SOURCES
from headrace.lake.formats.registry import LAKE_FORMATS, FormatTraits
from headrace.models.versions.model_registry import MODEL_REGISTRIES
from headrace.online_store.registry import MEMORY, ONLINE_STORES
from headrace.plugins import OPTION_DESCRIPTION, Driver
from tests.docs_tables import DOCS, IS_WRITTEN, made_table, require_table, row

SPOKEN_PAGE = DOCS / "what-it-speaks.md"
SPOKEN_AS = {
    SINK_TARGETS.kind: "sink",
    STREAM_SOURCES.kind: "bridge",
    ONLINE_STORES.kind: "online store",
    LAKE_FORMATS.kind: "lake",
    MODEL_REGISTRIES.kind: "registry",
}
SPOKEN = [(registry.kind, entry) for registry in CONNECTOR_REGISTRIES for entry in registry if entry is not MEMORY]


def needs(driver: Driver | None) -> str:
    return f"Needs `{driver.install_command}`." if driver else ""


def option_rows(declared: Iterable[type[Any]], entry: str) -> Iterator[str]:
    """A row of each class as users write it, then one of each of its options."""
    for kind in declared:
        what = f"{kind.__doc__} {needs(getattr(kind, entry).driver)}".strip()
        yield row(f"`hr.{kind.__name__}`", "", what)
        yield from (row("", f"`{one.name}`", one.metadata[OPTION_DESCRIPTION]) for one in fields(kind))


def delivery_cell(target: type[Target], delivery: Any) -> str:
    refused = f"refused: {target.unsupported_deliveries.get(delivery)}"
    return target.delivery_guarantees.get(delivery, refused)


def test_the_page_of_sinks_has_every_target_and_its_options() -> None:
    made = made_table(["target", "option", "says"], option_rows(TARGETS, "writer"))
    require_table("sinks.md", "| target | option |", made)


def test_the_page_of_sinks_has_what_every_target_makes_of_each_delivery() -> None:
    rows = [
        row(f"`hr.{target.__name__}`", *(delivery_cell(target, delivery) for delivery in DELIVERIES))
        for target in TARGETS
    ]
    head = ["target", *(f"`{delivery}`" for delivery in DELIVERIES)]
    require_table("sinks.md", "| target | `at_most_once` |", made_table(head, rows))


def test_the_page_of_bridges_has_every_source_and_its_options() -> None:
    made = made_table(["source", "option", "says"], option_rows(EXTERNAL_SOURCES, "reader"))
    require_table("bridges.md", "| source | option |", made)


def test_the_page_of_stores_has_every_store() -> None:
    rows = [
        row(f"`{entry.url_form}`", f"{entry.location}. {needs(entry.driver)}".strip(" ."), entry.filled_by)
        for entry in ONLINE_STORES
    ]
    require_table(
        "stores.md", "| `--store` |", made_table(["`--store`", "where the tables are", "who fills them"], rows)
    )


def test_the_page_of_the_lake_compares_every_format() -> None:
    rows = [
        row(one.metadata[OPTION_DESCRIPTION], *(getattr(entry.traits, one.name) for entry in LAKE_FORMATS))
        for one in fields(FormatTraits)
    ]
    require_table("lake.md", "| | Delta |", made_table(["", *(entry.title for entry in LAKE_FORMATS)], rows))


def test_the_page_of_models_has_every_registry() -> None:
    forms = [row(f"`{form}`", where) for entry in MODEL_REGISTRIES for form, where in entry.settings.items()]
    made = made_table(["`--registry`", "keeps it"], [row("none", "nowhere but in `.headrace/models`"), *forms])
    require_table("models.md", "| `--registry` |", made)


@pytest.mark.parametrize(("kind", "entry"), SPOKEN, ids=[f"{kind} {entry.name}" for kind, entry in SPOKEN])
def test_what_it_speaks_says_of_every_connector_what_it_was_tried_with(kind: str, entry: Any) -> None:
    text = SPOKEN_PAGE.read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    is_there = any(SPOKEN_AS[kind] in line and entry.title in line for line in rows)
    if IS_WRITTEN and not is_there:
        untried = row(f"{SPOKEN_AS[kind]}: {entry.title}", "no test of it is named here")
        SPOKEN_PAGE.write_text(f"{text.rstrip()}\n{untried}\n")
    else:
        assert is_there, f"{SPOKEN_PAGE.name} has no row of the {kind} {entry.title}"


@pytest.mark.parametrize("registry", CONNECTOR_REGISTRIES, ids=lambda registry: registry.kind)
def test_the_page_that_a_registry_names_is_there(registry: Any) -> None:
    assert (DOCS / registry.page).is_file()
