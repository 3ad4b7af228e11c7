"""The schemas of streams that leave theirs out, for every command: `plan` and `up` ask anew, the others keep to it."""

from collections.abc import Callable

import click

from headrace.declare.app import App
from headrace.declare.streams.encoding import RecordEncoding, RegisteredSchema
from headrace.runtime.configuration.state_folder import recorded_state_folder

REFRESHING_COMMANDS = ("plan", "up")
SAVING_COMMANDS = ("up", "run")


def resolve_subject(encoded: RecordEncoding) -> RegisteredSchema:
    """What the registry says of a stream's schema, or what it said when the app was last started."""
    from headrace.kafka.schema_registry.subjects import RegistrySchemaLookup

    context = click.get_current_context()
    command = context.command.name
    return RegistrySchemaLookup(
        recorded_state_folder(context),
        asks_registry=command in REFRESHING_COMMANDS,
        writes_cache=command in SAVING_COMMANDS,
    )(encoded)


def require_compatible_schemas(app: App, print_line: Callable[[str], None]) -> None:
    """Refuse before anything starts streams, and sinks, that do not fit what the registry has."""
    from headrace.connectors.sinks.sink_schemas import require_compatible_sink_schema
    from headrace.kafka.schema_registry.compatibility import require_compatible

    for stream in app.streams:
        for warning in require_compatible(stream).warnings:
            print_line(f"{stream.name}: {warning}")
    for sink in app.sinks:
        for warning in require_compatible_sink_schema(sink).warnings:
            print_line(f"{sink.name}: {warning}")
