"""The state folder of a command, for cached schemas and error logs."""

from pathlib import Path

import click

DEFAULT_STATE_FOLDER = ".headrace"
STATE_META_KEY = "headrace.state"  # in the context: the folder that --state has named


def record_state_folder(context: click.Context, _: click.Parameter, state: str) -> str:
    """Record the folder of --state in the context, for code without access to the command's flags."""
    context.meta[STATE_META_KEY] = state
    return state


def recorded_state_folder(context: click.Context) -> Path:
    """The state folder of a command, or the default one before its flags are parsed."""
    return Path(context.meta.get(STATE_META_KEY) or DEFAULT_STATE_FOLDER)
