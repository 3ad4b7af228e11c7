"""The `headrace` command: one file a command, loaded only when it is asked for."""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click

from headrace.declare.streams.encoding import use_schema_lookup
from headrace.errors import HeadraceError
from headrace.runtime.error_log import STATE_META_KEY, is_debugging, to_click_exception
from headrace.runtime.locations import add_location_options
from headrace.runtime.settings import SECURITY_OPTION, file_defaults, group_defaults
from headrace.runtime.stream_schemas import resolve_subject

# The folders below cli/commands, as `--help` lists them. A command is one file in one of them, named as its function.
SECTIONS = {"app": "Run and operate an app", "data": "Streams, lake and features", "models": "Models"}


def discover_commands() -> dict[str, str]:
    """Find every command and the folder that it is in, without importing any of them."""
    return {
        module.name: section
        for section in SECTIONS
        for module in iter_modules([str(Path(__file__).parent / "commands" / section)])
    }


COMMANDS = discover_commands()


class LazyGroup(click.Group):
    """A group whose commands are modules, each named as its function."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by section; a command is imported for its first sentence."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for section, title in SECTIONS.items():
            names = [name for name, folder in COMMANDS.items() if folder == section]
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(name, command.get_short_help_str(width)) for name, command in commands if command is not None]
                )

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
