"""The table of docs/settings.md."""

import re
from collections.abc import Iterator

from headrace.runtime.configuration.setting import EVERY_COMMAND, Setting
from headrace.runtime.configuration.settings_table import SETTINGS

PAGE_LINK = re.compile(r"docs/([a-z-]+)\.md")
COLUMNS = ("flag", "variable", "in `headrace.toml`", "default", "taken by", "what it is")
HEADER = f"| {' | '.join(COLUMNS)} |\n{'| --- ' * len(COLUMNS)}|\n"


def settings_markdown() -> str:
    """One row per setting, in the order of the table."""
    return HEADER + "".join(_rows())


def _rows() -> Iterator[str]:
    for setting in SETTINGS:
        if not setting.is_hidden:
            cells = (
                _code(_flag_text(setting)),
                _code(setting.variable),
                "once only" if setting.is_one_time else _code(setting.key),
                "" if setting.default is None else _code(str(setting.default)),
                _commands_text(setting),
                PAGE_LINK.sub(r"[\1](\1.md)", setting.help),
            )
            yield f"| {' | '.join(cells)} |\n"


def _commands_text(setting: Setting) -> str:
    return ", ".join(setting.commands if setting.commands == EVERY_COMMAND else map(_code, setting.commands))


def _flag_text(setting: Setting) -> str:
    choices = getattr(setting.format.option_type, "choices", ())
    return f"{setting.flag} {'|'.join(choices)}" if choices else setting.usage


def _code(text: str) -> str:
    """Code in a table cell, with bars escaped."""
    return f"`{text.replace('|', chr(92) + '|')}`"
