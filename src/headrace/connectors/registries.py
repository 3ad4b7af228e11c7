"""The registries of all connectors."""

from typing import Any

from headrace.declare.sinks.targets import SINK_TARGETS
from headrace.declare.streams.external_sources import STREAM_SOURCES
from headrace.lake.formats.registry import LAKE_FORMATS
from headrace.models.versions.model_registry import MODEL_REGISTRIES
from headrace.online_store.registry import ONLINE_STORES
from headrace.plugins import Driver, PluginRegistry

CONNECTOR_REGISTRIES: tuple[PluginRegistry[Any], ...] = (
    SINK_TARGETS,
    STREAM_SOURCES,
    ONLINE_STORES,
    LAKE_FORMATS,
    MODEL_REGISTRIES,
)


def connector_drivers() -> dict[str, Driver]:
    """The drivers of connectors, by the extra that installs each."""
    entries = (entry for registry in CONNECTOR_REGISTRIES for entry in registry)
    return {entry.driver.extra: entry.driver for entry in entries if entry.driver is not None}
