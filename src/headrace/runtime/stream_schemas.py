"""The schemas of streams from a registry: `plan` and `up` fetch them, other commands use the cached ones."""

from collections.abc import Callable

import click

from headrace.declare.app import App
from headrace.declare.streams.encoding import RecordEncoding, RegisteredSchema
from headrace.runtime.configuration.state_folder import recorded_state_folder

REFRESHING_COMMANDS = ("plan", "up")
SAVING_COMMANDS = ("up", "run")


def resolve_subject(encoded: RecordEncoding) -> RegisteredSchema:
    """The registry's schema of a stream, or the cached one of the app's last start."""
    from headrace.kafka.schema_registry.schema_lookup import RegistrySchemaLookup

    context = click.get_current_context()
    command = context.command.name
    return RegistrySchemaLookup(
        recorded_state_folder(context),
        asks_registry=command in REFRESHING_COMMANDS,
        writes_cache=command in SAVING_COMMANDS,
    )(encoded)


def require_compatible_schemas(app: App, print_line: Callable[[str], None]) -> None:
    """Raise, before anything starts, for streams and sinks that are incompatible with their registry's schemas."""
    from headrace.connectors.sinks.sink_schemas import require_compatible_sink_schema
    from headrace.kafka.schema_registry.compatibility import require_compatible

    for stream in app.streams:
        for warning in require_compatible(stream).warnings:
            print_line(f"{stream.name}: {warning}")
    for sink in app.sinks:
        for warning in require_compatible_sink_schema(sink).warnings:
            print_line(f"{sink.name}: {warning}")
