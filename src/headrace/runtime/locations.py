"""Where an app is: the options that every command takes, each with one meaning, one default and one variable.

flag ──▶ else HEADRACE_STATE, HEADRACE_BROKER, … ──▶ else headrace.toml ──▶ else the default here

What belongs to an app is in its state folder, the lake and the versions of models too, unless `--lake` says otherwise.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_STATE_FOLDER = ".headrace"
LOCATIONS: Mapping[str, Mapping[str, Any]] = {
    "state": {
        "default": DEFAULT_STATE_FOLDER,
        "show_default": True,
        "metavar": "DIR",
        "help": "Where everything of the app is kept: checkpoints, lake, models, tokens, the log of a broker here.",
    },
    "http": {
        "default": "127.0.0.1:8080",
        "show_default": True,
        "metavar": "HOST:PORT",
        "help": "Where the app is served.",
    },
    "broker": {"metavar": "HOST:PORT", "help": "Your Kafka; without it, the one that `headrace up` starts here."},
    "broker_port": {"default": 9092, "show_default": True, "help": "The port of the broker started here."},
    "store": {
        "default": "memory",
        "show_default": True,
        "metavar": "memory|redis://…|cassandra://…",
        "help": "The online store.",
    },
    "lake": {"metavar": "DIR|off", "help": "Where the tables of the lake are; STATE/lake without it."},
}


def location_option(name: str) -> Callable[[Command], Command]:
    """The option of a location, for a command that uses it."""
    return click.option(flag_name(name), name, **LOCATIONS[name])


def location_options(*names: str) -> Callable[[Command], Command]:
    """The options of these locations, in this order."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = location_option(name)(command)
        return command

    return decorate


def add_location_options(command: click.Command) -> None:
    """Let a command take the options of every location; those that it does not use are not in its help."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_location_options(subcommand)
        return
    option_names = {option.name for option in command.params}
    command.params += [_ignored_option(name) for name in LOCATIONS if name not in option_names]


def current_state_folder() -> Path:
    """The state folder that the present command was told of."""
    context = click.get_current_context()
    return Path(context.params.get("state") or context.meta.get("headrace.state") or DEFAULT_STATE_FOLDER)


def flag_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _ignored_option(name: str) -> click.Option:
    """An option that a command takes and does not look at, so that all can be given the same flags.

    The state folder is looked at by all: a stream's registered schema is kept there.
    """

    def record_value(context: click.Context, option: click.Parameter, value: Any) -> None:
        context.meta[f"headrace.{option.name}"] = value

    is_hidden = name != "state"
    return click.Option(
        [flag_name(name), name], expose_value=False, hidden=is_hidden, callback=record_value, **LOCATIONS[name]
    )
