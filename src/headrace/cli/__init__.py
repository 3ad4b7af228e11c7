"""The `headrace` command: one file a command, loaded only when it is asked for."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

import click

from headrace.cli.error_log import STATE, is_debugging, unexpected
from headrace.cli.locations import offer_locations
from headrace.cli.settings import SECURITY, defaults_of_group, file_defaults
from headrace.cli.subjects import subject_known
from headrace.declare.encoded import schemas_known_by
from headrace.errors import HeadraceError

COMMANDS = (
    "up",
    "status",
    "plan",
    "run",
    "backfill",
    "train",
    "retrain",
    "score",
    "models",
    "check",
    "quality",
    "drift",
    "alerts",
    "dead",
    "parked",
    "changes",
    "state",
    "savepoint",
    "trace",
    "hot",
    "sql",
    "export",
    "lateness",
    "replay",
    "outbox",
    "token",
    "doctor",
)


class Commands(click.Group):
    """A group whose commands are the modules of this folder, each named as its function."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"headrace.cli.{cmd_name}"), cmd_name)
        offer_locations(command)
        _offer_security(command)
        _read_environment(command)
        _remember_state(command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error is one sentence and exit code 1; the trace of an unexpected one is in a file."""
        try:
            with schemas_known_by(subject_known):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except HeadraceError as error:
            raise click.ClickException(str(error)) from error
        except Exception as error:
            if is_debugging():
                raise
            raise unexpected(error, ctx) from error


def _offer_security(command: click.Command) -> None:
    """Let whatever reaches a broker be told who it is there."""
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _offer_security(inner)
    names = [option.name for option in command.params]
    if "broker" in names and SECURITY.name not in names:
        command.params.insert(names.index("broker") + 1, SECURITY)


def _remember_state(command: click.Command) -> None:
    """Let whoever logs a command's errors know the folder that its --state names."""

    def remember(context: click.Context, _: click.Parameter, state: str) -> str:
        context.meta[STATE] = state
        return state

    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _remember_state(inner)
    for option in command.params:
        if option.name == "state" and option.callback is None:
            option.callback = remember


def _read_environment(command: click.Command) -> None:
    """Let HEADRACE_HTTP stand for --http, and so on for every option."""
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _read_environment(inner)
    for option in command.params:
        if isinstance(option, click.Option) and option.name and option.envvar is None:
            option.envvar = f"HEADRACE_{option.name.strip('_').upper()}"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("headrace"))
@click.pass_context
def main(context: click.Context) -> None:
    """Features declared once, kept fresh by Spark, served and trained alike."""
    defaults, name = file_defaults(COMMANDS), context.invoked_subcommand or ""
    group = main.get_command(context, name)
    context.default_map = (
        defaults_of_group(defaults, name, group.commands) if isinstance(group, click.Group) else defaults
    )
