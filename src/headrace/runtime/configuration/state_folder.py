"""The state folder that a command was given: schemas are looked up there, and errors are logged there."""

from pathlib import Path

import click

DEFAULT_STATE_FOLDER = ".headrace"
STATE_META_KEY = "headrace.state"  # in the context: the folder that --state has named


def record_state_folder(context: click.Context, _: click.Parameter, state: str) -> str:
    """Let whoever has no flags of the command know the folder that its --state names."""
    context.meta[STATE_META_KEY] = state
    return state


def recorded_state_folder(context: click.Context) -> Path:
    """The folder of a command, or the default one where it was not yet read from its flags."""
    return Path(context.meta.get(STATE_META_KEY) or DEFAULT_STATE_FOLDER)
