"""The settings of a command's flags."""

from collections.abc import Mapping
from typing import Any

from headrace.runtime.configuration.settings_table import SETTINGS
from headrace.runtime.settings import Settings
from headrace.server.auth.access_config import AccessConfig

ACCESS_PREFIX = "access."


def parse_settings(flags: Mapping[str, Any]) -> Settings:
    """Read each setting of the table by its flag."""
    values = {setting.settings_field: setting.parse(flags) for setting in SETTINGS if setting.settings_field}
    access = {
        field.removeprefix(ACCESS_PREFIX): values.pop(field) for field in [*values] if field.startswith(ACCESS_PREFIX)
    }
    return Settings(**values, access=AccessConfig(**access))
