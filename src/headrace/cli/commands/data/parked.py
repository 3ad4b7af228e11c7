"""`headrace parked ls|show|replay|discard APP [SINK]`: lists, replays and discards rows a target refused."""

from typing import Any

import click

from headrace.cli.command_grammar import verb_command
from headrace.cli.dead_letter_commands import ACTIONS, LETTER_OPTIONS, print_counts, run_action
from headrace.declare.app import load_app
from headrace.kafka.dead_letter_queue import sink_queue_config
from headrace.runtime.configuration.click_options import apply_options
from headrace.runtime.settings import BadSetting, broker_from_flags


@click.command(cls=verb_command(*ACTIONS))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("sink", required=False)
@apply_options(*LETTER_OPTIONS)
def parked(action: str, app: str, sink: str | None, **flags: Any) -> None:
    """The parked rows of APP: ls by reason, show, replay once the cause is gone or the row is corrected, discard."""
    loaded_app, broker = load_app(app), broker_from_flags(flags)
    if action == "ls":
        selected_sinks = loaded_app.sinks if sink is None else (loaded_app.sink(sink),)
        print_counts(
            broker,
            [sink_queue_config(declared_sink) for declared_sink in selected_sinks],
            owner_kind="sink",
            in_json=flags["in_json"],
        )
        return
    if sink is None:
        names = ", ".join(repr(one.name) for one in loaded_app.sinks) or "none"
        raise BadSetting(f"SINK is missing. Write headrace parked {action} {app} SINK, one of {names}.")
    run_action(broker, action, sink_queue_config(loaded_app.sink(sink)), flags)
