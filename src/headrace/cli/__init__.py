"""The `headrace` command: one file per command, imported when the command is used."""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click

from headrace.declare.streams.encoding import use_schema_lookup
from headrace.errors import HeadraceError
from headrace.runtime.configuration.click_options import add_common_settings
from headrace.runtime.configuration.settings_file import file_defaults, group_defaults
from headrace.runtime.error_log import is_debugging, to_click_exception
from headrace.runtime.stream_schemas import resolve_subject

# The folders below cli/commands, as `--help` lists them. A command is one file in one of them, named as its function.
SECTIONS = {"app": "Run and operate an app", "data": "Streams, lake and features", "models": "Models"}


def discover_commands() -> dict[str, str]:
    """Find every command and its folder, without importing any of them."""
    return {
        module.name: section
        for section in SECTIONS
        for module in iter_modules([str(Path(__file__).parent / "commands" / section)])
    }


COMMANDS = discover_commands()


class LazyGroup(click.Group):
    """A group whose commands are modules; each module has a function of the command's name."""

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
        add_common_settings(command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error prints one sentence and exits with 1, an unexpected traceback goes to a file."""
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


def _list_option_names() -> frozenset[str | None]:
    """The parameters of every command, each of which headrace.toml may set."""
    context = click.Context(main)
    commands = [command for name in COMMANDS if (command := main.get_command(context, name)) is not None]
    return frozenset(option.name for command in commands for one in _leaves(command) for option in one.params)


def _leaves(command: click.Command) -> list[click.Command]:
    return [*command.commands.values()] if isinstance(command, click.Group) else [command]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("headrace"))
@click.pass_context
def main(context: click.Context) -> None:
    """Features declared once, kept fresh by Spark, served and trained alike."""
    defaults, command_name = file_defaults(list(COMMANDS), _list_option_names), context.invoked_subcommand or ""
    group = main.get_command(context, command_name)
    context.default_map = (
        group_defaults(defaults, command_name, group.commands) if isinstance(group, click.Group) else defaults
    )
