"""A row of the table of settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.runtime.configuration.value_formats import FlagValue, ValueFormat

VARIABLE_PREFIX = "HEADRACE_"
EVERY_COMMAND = ("every command",)
PART_COMMANDS = ("up", "run", "plan")


class Handover(Enum):
    """How `headrace up` passes a setting to the processes of parts."""

    FLAG = "by a flag of their command"
    SECRET = "by a variable alone: anybody on the machine reads command lines"  # noqa: S105 - not one itself
    ONCE = "never: `up` does it once, and no restart of a part does it again"
    NONE = "not at all: who was given it is the only one to use it"


@dataclass(frozen=True)
class Setting:
    """A setting: its name, its format, the commands that accept it, and its attribute of `Settings`.

    `name` is the parameter of a command's function; the flag is derived from it unless `flag` is given. `field` is the
    attribute of `Settings`, by default the setting's name; "" if `Settings` does not have it. `handed_field` is the
    attribute that parts get, if it is another one.
    """

    name: str
    help: str
    format: ValueFormat
    default: Any = None
    commands: tuple[str, ...] = PART_COMMANDS
    handover: Handover = Handover.FLAG
    is_repeatable: bool = False
    is_hidden: bool = False
    flag: str = ""
    field: str | None = None
    handed_field: str | None = None
    callback: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "flag", self.flag or f"--{self.key}")

    @property
    def key(self) -> str:
        """Its key in headrace.toml."""
        return self.name.strip("_").replace("_", "-")

    @property
    def variable(self) -> str:
        return variable_name(self.name)

    @property
    def settings_field(self) -> str:
        return self.name if self.field is None else self.field

    @property
    def is_secret(self) -> bool:
        return self.handover is Handover.SECRET

    @property
    def is_one_time(self) -> bool:
        return self.handover is Handover.ONCE

    @property
    def usage(self) -> str:
        """The flag in errors and docs: `--since TIME`."""
        return " ".join(filter(None, (self.flag, self.format.metavar)))

    def is_taken_by(self, command: str) -> bool:
        return self.commands == EVERY_COMMAND or command in self.commands

    def parse(self, flags: Mapping[str, Any]) -> Any:
        """The value for `Settings`; the default for a command without the flag."""
        unset = () if self.is_repeatable else False if self.format.is_switch else self.default
        return self.format.parse(FlagValue(flags.get(self.name, unset), self.flag, flags))

    def to_flags(self, value: Any) -> list[str]:
        """The command-line arguments for a value.

        >>> Setting("allow_host", "Names.", ValueFormat("a"), is_repeatable=True).to_flags(("a", "b"))
        ['--allow-host', 'a', '--allow-host', 'b']
        """
        if self.format.is_switch:
            return [self.flag] if value else []
        texts = map(self.format.to_text, value if self.is_repeatable else (value,))
        return [word for text in texts if text is not None for word in (self.flag, text)]


def variable_name(parameter: str) -> str:
    """The environment variable of a command's parameter.

    >>> variable_name("for_")
    'HEADRACE_FOR'
    """
    return f"{VARIABLE_PREFIX}{parameter.strip('_').upper()}"
