"""The schemas of streams that leave theirs out, for every command: `plan` and `up` ask anew, the others keep to it."""

from collections.abc import Callable

import click

from headrace.cli.locations import state_told
from headrace.declare.app import App
from headrace.declare.encoded import Encoded, Subject

ASKING = ("plan", "up")
KEEPING = ("up", "run")


def subject_known(encoded: Encoded) -> Subject:
    """What the registry says of a stream's schema, or what it said when the app was last started."""
    from headrace.log.schemas.subjects import Subjects

    command = click.get_current_context().command.name
    return Subjects(state_told(), asks=command in ASKING, keeps=command in KEEPING)(encoded)


def require_schemas(app: App, say: Callable[[str], None]) -> None:
    """Refuse before anything starts streams, and sinks, that do not fit what the registry has."""
    from headrace.log.schemas.compatible import require_compatible
    from headrace.sink.schemas import require_taken

    for stream in app.streams:
        for warning in require_compatible(stream).warned:
            say(f"{stream.name}: {warning}")
    for sink in app.sinks:
        for warning in require_taken(sink).warned:
            say(f"{sink.name}: {warning}")
