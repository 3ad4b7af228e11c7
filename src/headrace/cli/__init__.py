"""The `headrace` command: one file a command, loaded only when it is asked for."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

import click

from headrace.declare.streams.encoding import use_schema_lookup
from headrace.errors import HeadraceError
from headrace.runtime.error_log import STATE_META_KEY, is_debugging, to_click_exception
from headrace.runtime.locations import add_location_options
from headrace.runtime.settings import SECURITY_OPTION, file_defaults, group_defaults
from headrace.runtime.stream_schemas import resolve_subject

# Each command, in the order of the help, and the folder below cli/commands that it is in.
COMMANDS = {
    "up": "app",
    "status": "app",
    "plan": "app",
    "run": "app",
    "backfill": "data",
    "train": "models",
    "retrain": "models",
    "score": "models",
    "models": "models",
    "check": "data",
    "quality": "models",
    "drift": "models",
    "alerts": "app",
    "dead": "data",
    "parked": "data",
    "changes": "data",
    "state": "app",
    "savepoint": "app",
    "trace": "app",
    "hot": "app",
    "sql": "data",
    "export": "app",
    "lateness": "data",
    "replay": "data",
    "outbox": "data",
    "token": "app",
    "doctor": "app",
}


class LazyGroup(click.Group):
    """A group whose commands are modules, each named as its function."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(
            import_module(f"headrace.cli.commands.{COMMANDS[cmd_name]}.{cmd_name}"), cmd_name
        )
        add_location_options(command)
        _add_security_option(command)
        _set_environment_variables(command)
        _record_state_option(command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error is one sentence and exit code 1; the trace of an unexpected one is in a file."""
        try:
            with use_schema_lookup(resolve_subject):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except HeadraceError as error:
            raise click.ClickException(str(error)) from error
        except Exception as error:
            if is_debugging():
                raise
            raise to_click_exception(error, ctx) from error


def _add_security_option(command: click.Command) -> None:
    """Let whatever reaches a broker be told who it is there."""
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        _add_security_option(subcommand)
    option_names = [option.name for option in command.params]
    if "broker" in option_names and SECURITY_OPTION.name not in option_names:
        command.params.insert(option_names.index("broker") + 1, SECURITY_OPTION)


def _record_state_option(command: click.Command) -> None:
    """Let whoever logs a command's errors know the folder that its --state names."""

    def record_state(context: click.Context, _: click.Parameter, state: str) -> str:
        context.meta[STATE_META_KEY] = state
        return state

    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        _record_state_option(subcommand)
    for option in command.params:
        if option.name == "state" and option.callback is None:
            option.callback = record_state


def _set_environment_variables(command: click.Command) -> None:
    """Let HEADRACE_HTTP stand for --http, and so on for every option."""
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        _set_environment_variables(subcommand)
    for option in command.params:
        if isinstance(option, click.Option) and option.name and option.envvar is None:
            option.envvar = f"HEADRACE_{option.name.strip('_').upper()}"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("headrace"))
@click.pass_context
def main(context: click.Context) -> None:
    """Features declared once, kept fresh by Spark, served and trained alike."""
    defaults, command_name = file_defaults(list(COMMANDS)), context.invoked_subcommand or ""
    group = main.get_command(context, command_name)
    context.default_map = (
        group_defaults(defaults, command_name, group.commands) if isinstance(group, click.Group) else defaults
    )
