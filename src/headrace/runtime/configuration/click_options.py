"""The options of commands, made from the table of settings."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from headrace.runtime.configuration.setting import Setting, variable_name
from headrace.runtime.configuration.settings_table import LOCATIONS, SETTINGS, SETTINGS_BY_NAME

Command = TypeVar("Command", bound=Callable[..., Any])
OptionDecorator = Callable[[Any], Any]
BROKER, BROKER_SECURITY = SETTINGS_BY_NAME["broker"], SETTINGS_BY_NAME["broker_security"]


def setting_option(name: str, help_text: str | None = None) -> OptionDecorator:
    """The option of a setting for a command; `help_text` replaces the setting's own help."""
    setting = SETTINGS_BY_NAME[name]
    return click.option(setting.flag, setting.name, **_option_attributes(setting, help_text))


def setting_options(*names: str) -> OptionDecorator:
    """The options of these settings, in this order."""
    return apply_options(*map(setting_option, names))


def command_settings(command_name: str) -> OptionDecorator:
    """The options of all settings that a command accepts, in the order of the table."""
    return setting_options(*(setting.name for setting in SETTINGS if setting.is_taken_by(command_name)))


def apply_options(*option_decorators: OptionDecorator) -> OptionDecorator:
    """Add these options to a command, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(option_decorators):
            command = option(command)
        return command

    return decorate


def add_common_settings(command: click.Command) -> None:
    """Add the options of all locations and of the broker's security to a command, and a variable to each option.

    Locations that a command does not use are hidden from its help: all commands accept the same flags.
    """
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_common_settings(subcommand)
        return
    option_names = [option.name for option in command.params]
    ignored_options = [_ignored_option(setting) for setting in LOCATIONS if setting.name not in option_names]
    ignored_options.sort(key=lambda option: option.hidden)
    command.params += ignored_options
    option_names = [option.name for option in command.params]
    if BROKER_SECURITY.name not in option_names:
        command.params.insert(option_names.index(BROKER.name) + 1, _to_option(BROKER_SECURITY))
    for option in command.params:
        if isinstance(option, click.Option) and option.name and option.envvar is None:
            option.envvar = variable_name(option.name)


def _ignored_option(setting: Setting) -> click.Option:
    """A hidden option that a command accepts and ignores; all commands use the state folder, for schemas."""
    return _to_option(setting, expose_value=False, hidden=setting.name != "state")


def _to_option(setting: Setting, **attributes: Any) -> click.Option:
    return click.Option([setting.flag, setting.name], **_option_attributes(setting) | attributes)


def _option_attributes(setting: Setting, help_text: str | None = None) -> dict[str, Any]:
    """The attributes for click, which derives missing ones, such as the type from the default."""
    attributes: dict[str, Any] = {
        "help": help_text or setting.help or None,
        "envvar": setting.variable,
        "metavar": setting.format.metavar,
        "type": setting.format.option_type,
        "callback": setting.callback,
        "multiple": setting.is_repeatable,
        "is_flag": setting.format.is_switch,
        "hidden": setting.is_hidden,
        "expose_value": setting is not BROKER_SECURITY,
    }
    if setting.default is not None:
        attributes |= {"default": setting.default, "show_default": True}
    return attributes
