"""Passes the settings of `headrace up` to the processes of parts: by the flags of their commands, or by variables."""

from operator import attrgetter
from typing import Any

from headrace.runtime.configuration.setting import Handover, Setting
from headrace.runtime.configuration.settings_table import SETTINGS, SETTINGS_BY_NAME
from headrace.runtime.settings import Settings

# Never on the command line of a process that we start.
SECRET_FLAGS = frozenset(setting.flag for setting in SETTINGS if setting.is_secret)
# Never in the environment of a part: `up` applies them before parts start.
ONE_TIME_VARIABLES = tuple(setting.variable for setting in SETTINGS if setting.is_one_time)


def part_flags(settings: Settings) -> list[str]:
    """The flags of every part."""
    return setting_flags(settings, *(setting.name for setting in SETTINGS if setting.handover is Handover.FLAG))


def setting_flags(settings: Settings, *names: str) -> list[str]:
    """The flags of these settings, in this order; settings without a value have none."""
    rows = (SETTINGS_BY_NAME[name] for name in names)
    return [word for setting in rows for word in setting.to_flags(_handed_value(setting, settings))]


def secret_variables(settings: Settings) -> dict[str, str]:
    """The secrets for the environment of processes, since every user of the machine can read command lines."""
    return {
        setting.variable: setting.format.to_text(_handed_value(setting, settings)) or ""
        for setting in SETTINGS
        if setting.is_secret
    }


def _handed_value(setting: Setting, settings: Settings) -> Any:
    return attrgetter(setting.handed_field or setting.settings_field)(settings)
