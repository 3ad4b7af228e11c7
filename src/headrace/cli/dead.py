"""`headrace dead ls|show|replay|discard APP [STREAM]`: dead letters by reason, one by one, mended and sent again."""

from typing import Any

import click

from headrace.cli.grammar import verbs
from headrace.cli.letters import ACTIONS, LETTER_OPTIONS, act, ls
from headrace.cli.settings import BadSetting, log_of, options
from headrace.declare.app import load_app
from headrace.log.letters import dead_of


@click.command(cls=verbs(*ACTIONS))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("stream", required=False)
@options(LETTER_OPTIONS)
def dead(action: str, app: str, stream: str | None, **flags: Any) -> None:
    """The dead letters of APP: ls by reason, show, replay once the cause is gone or the letter is mended, discard."""
    declared, broker = load_app(app), log_of(flags)
    if action == "ls":
        chosen = declared.streams if stream is None else (declared.stream(stream),)
        ls(broker, [dead_of(one) for one in chosen], of="stream", in_json=flags["in_json"])
        return
    if stream is None:
        names = ", ".join(one.name for one in declared.streams)
        raise BadSetting(f"Of which stream? Write headrace dead {action} {app} STREAM, one of {names}.")
    act(broker, action, dead_of(declared.stream(stream)), flags)
