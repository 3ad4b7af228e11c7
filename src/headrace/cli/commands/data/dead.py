"""`headrace dead ls|show|replay|discard APP [STREAM]`: lists, shows, replays and discards dead letters."""

from typing import Any

import click

from headrace.cli.command_grammar import verb_command
from headrace.cli.dead_letter_commands import ACTIONS, LETTER_OPTIONS, print_counts, run_action
from headrace.declare.app import load_app
from headrace.kafka.dead_letter_queue import stream_queue_config
from headrace.runtime.configuration.click_options import apply_options
from headrace.runtime.settings import BadSetting, broker_from_flags


@click.command(cls=verb_command(*ACTIONS))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("stream", required=False)
@apply_options(*LETTER_OPTIONS)
def dead(action: str, app: str, stream: str | None, **flags: Any) -> None:
    """The dead letters of APP: ls by reason, show, replay once the cause is gone or it is corrected, discard."""
    loaded_app, broker = load_app(app), broker_from_flags(flags)
    if action == "ls":
        selected_streams = loaded_app.streams if stream is None else (loaded_app.stream(stream),)
        print_counts(
            broker,
            [stream_queue_config(declared_stream) for declared_stream in selected_streams],
            owner_kind="stream",
            in_json=flags["in_json"],
        )
        return
    if stream is None:
        names = ", ".join(one.name for one in loaded_app.streams)
        raise BadSetting(f"STREAM is missing. Write headrace dead {action} {app} STREAM, one of {names}.")
    run_action(broker, action, stream_queue_config(loaded_app.stream(stream)), flags)
