"""`headrace parked ls|show|replay|discard APP [SINK]`: rows a sink's target refused, mended and sent again."""

from typing import Any

import click

from headrace.cli.grammar import verbs
from headrace.cli.letters import ACTIONS, LETTER_OPTIONS, act, ls
from headrace.cli.settings import BadSetting, log_of, options
from headrace.declare.app import load_app
from headrace.log.letters import parked_of


@click.command(cls=verbs(*ACTIONS))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("sink", required=False)
@options(LETTER_OPTIONS)
def parked(action: str, app: str, sink: str | None, **flags: Any) -> None:
    """The parked rows of APP: ls by reason, show, replay once the cause is gone or the row is mended, discard."""
    declared, broker = load_app(app), log_of(flags)
    if action == "ls":
        chosen = declared.sinks if sink is None else (declared.sink(sink),)
        ls(broker, [parked_of(one) for one in chosen], of="sink", in_json=flags["in_json"])
        return
    if sink is None:
        names = ", ".join(repr(one.name) for one in declared.sinks) or "none"
        raise BadSetting(f"Of which sink? Write headrace parked {action} {app} SINK, one of {names}.")
    act(broker, action, parked_of(declared.sink(sink)), flags)
