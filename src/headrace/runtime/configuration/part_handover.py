"""How the processes of parts get the settings of `headrace up`: by the flags of their commands, or by variables."""

from operator import attrgetter
from typing import Any

from headrace.runtime.configuration.setting import Handover, Setting
from headrace.runtime.configuration.settings_table import SETTINGS, SETTINGS_BY_NAME
from headrace.runtime.settings import Settings

# On no command line of a process that we start.
SECRET_FLAGS = frozenset(setting.flag for setting in SETTINGS if setting.is_secret)
# In the environment of no part: what they ask for is done before parts start.
ONE_TIME_VARIABLES = tuple(setting.variable for setting in SETTINGS if setting.is_one_time)


def part_flags(settings: Settings) -> list[str]:
    """The flags that every part is started with."""
    return setting_flags(settings, *(setting.name for setting in SETTINGS if setting.handover is Handover.FLAG))


def setting_flags(settings: Settings, *names: str) -> list[str]:
    """The flags of these settings, in this order; one without a value has none."""
    rows = (SETTINGS_BY_NAME[name] for name in names)
    return [word for setting in rows for word in setting.to_flags(_handed_value(setting, settings))]


def secret_variables(settings: Settings) -> dict[str, str]:
    """What processes find in their environment, as anybody on the machine reads command lines."""
    return {
        setting.variable: setting.format.to_text(_handed_value(setting, settings)) or ""
        for setting in SETTINGS
        if setting.is_secret
    }


def _handed_value(setting: Setting, settings: Settings) -> Any:
    return attrgetter(setting.handed_field or setting.settings_field)(settings)
