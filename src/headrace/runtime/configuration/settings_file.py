"""headrace.toml: one line per setting, for every command that has it."""

import tomllib
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from headrace.runtime.configuration.settings_table import SETTINGS
from headrace.runtime.settings import BadSetting

SETTINGS_FILE = Path("headrace.toml")
SETTINGS_BY_KEY = {setting.key: setting for setting in SETTINGS}
SUGGESTED_KEYS = [setting.key for setting in SETTINGS if not setting.is_one_time and not setting.is_hidden]


def file_defaults(
    commands: Sequence[str], list_option_names: Callable[[], Collection[str | None]] = tuple
) -> dict[str, Any]:
    """The settings of headrace.toml, as defaults of every command that has them.

    The file may also set options of single commands; their names are listed only when needed.
    """
    if not SETTINGS_FILE.exists():
        return {}
    try:
        file_values = tomllib.loads(SETTINGS_FILE.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(
            f'{SETTINGS_FILE} cannot be read: {error}. Write lines such as http = "127.0.0.1:8080".'
        ) from error
    _require_lasting_settings(file_values)
    _require_known_keys(file_values, list_option_names)
    values = {_parameter_name(key): value for key, value in file_values.items()}
    return dict.fromkeys(commands, values)


def group_defaults(defaults: dict[str, Any], group: str, commands: Iterable[str]) -> dict[str, Any]:
    """The settings of headrace.toml, also for each command of a group."""
    return defaults | {group: dict.fromkeys(commands, defaults[group])} if defaults else {}


def _parameter_name(key: str) -> str:
    setting = SETTINGS_BY_KEY.get(_plain_key(key))
    return key.replace("-", "_") if setting is None else setting.name


def _plain_key(key: str) -> str:
    return key.replace("_", "-")


def _require_lasting_settings(keys: Iterable[str]) -> None:
    """Reject one-time settings, which would apply at each start."""
    for key in keys:
        setting = SETTINGS_BY_KEY.get(_plain_key(key))
        if setting is not None and setting.is_one_time:
            raise BadSetting(
                f"{SETTINGS_FILE} sets {setting.key}, which would apply at each start. Give it once: {setting.usage}."
            )


def _require_known_keys(keys: Iterable[str], list_option_names: Callable[[], Collection[str | None]]) -> None:
    """Reject unknown keys: a typing error would otherwise be a setting without effect."""
    unlisted_keys = [key for key in keys if _plain_key(key) not in SETTINGS_BY_KEY]
    option_names = list_option_names() if unlisted_keys else ()
    for key in unlisted_keys:
        if _parameter_name(key) not in option_names:
            closest = get_close_matches(_plain_key(key), SUGGESTED_KEYS, 1)
            suggestion = f" Did you mean {closest[0]!r}?" if closest else ""
            raise BadSetting(f"{SETTINGS_FILE} sets {key!r}, which is no setting.{suggestion} See docs/settings.md.")
