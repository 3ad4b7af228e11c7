"""The formats of settings: parsing the text of a flag, and formatting a value of `Settings`."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from headrace.declare.durations import duration_text, duration_us
from headrace.runtime.settings import BadSetting, lake_folder

OTLP_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
MIN_CHECKPOINT_SECONDS = 5
SECOND_US = 1_000_000


@dataclass(frozen=True)
class FlagValue:
    """The value of a flag, and the values of all flags of the command."""

    value: Any
    flag: str
    flags: Mapping[str, Any]


def parse_as_given(given: FlagValue) -> Any:
    return given.value


def to_plain_text(value: Any) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True)
class ValueFormat:
    """How a kind of value is parsed from a flag, and formatted as a flag; the text None omits the flag.

    `example` is a value in the user's form; the tests of the table use it for every setting of the kind.
    """

    example: str
    parse: Callable[[FlagValue], Any] = parse_as_given
    to_text: Callable[[Any], str | None] = to_plain_text
    metavar: str | None = None
    option_type: click.ParamType[Any] | type | None = None
    is_switch: bool = False


def one_of(choices: Sequence[str]) -> ValueFormat:
    """One of these choices."""
    return ValueFormat(choices[-1], option_type=click.Choice(choices))


def text_as(metavar: str, example: str) -> ValueFormat:
    """Text that is not parsed here."""
    return ValueFormat(example, metavar=metavar)


def texts_as(metavar: str, example: str) -> ValueFormat:
    """Any number of texts, in their order."""
    return ValueFormat(example, lambda given: tuple(given.value), metavar=metavar)


def _parse_path(given: FlagValue) -> Path | None:
    return Path(given.value) if given.value else None


def _parse_seconds(given: FlagValue) -> float | None:
    return None if given.value is None else duration_us(given.value, given.flag) / SECOND_US


def _seconds_text(seconds: float) -> str:
    return duration_text(round(seconds * SECOND_US))


def _parse_checkpoint_seconds(given: FlagValue) -> int:
    seconds = duration_us(given.value, given.flag) // SECOND_US
    if seconds < MIN_CHECKPOINT_SECONDS:
        raise BadSetting(f"{given.flag} {given.value!r} is too short: Spark needs {MIN_CHECKPOINT_SECONDS}s or more.")
    return seconds


def _parse_retention(given: FlagValue) -> timedelta | None:
    if given.value == "forever":
        return None
    retention = timedelta(microseconds=duration_us(given.value, given.flag))
    if retention < timedelta(days=1):
        raise BadSetting(
            f"{given.flag} {given.value!r} is too short: the lake deletes whole days. Write 1d or more, or forever."
        )
    return retention


def _retention_text(retention: timedelta | None) -> str:
    return "forever" if retention is None else duration_text(retention // timedelta(microseconds=1))


def _parse_lake(given: FlagValue) -> Path | None:
    return lake_folder(given.value, Path(given.flags["state"]))


def _parse_since_us(given: FlagValue) -> int | None:
    text = given.value
    if text is None:
        return None
    if not given.flags["rebuild"]:
        raise BadSetting(f"{given.flag} {text!r} says where a rebuild begins. Write --rebuild NAME with it.")
    try:
        since = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadSetting(f"{given.flag} {text!r} is not a time. Write it as 2026-01-01T00:00:00Z.") from error
    return int(since.replace(tzinfo=since.tzinfo or UTC).timestamp() * SECOND_US)


def otlp_receiver(text: str | None) -> str | None:
    """The OTLP endpoint: from the setting, or from OTLP's standard variable."""
    receiver = text or os.environ.get(OTLP_VARIABLE)
    return None if receiver == "off" else receiver or None


STREAMS = ValueFormat("payments", lambda given: frozenset(given.value), metavar="STREAM")
FILE = ValueFormat("a.pem", _parse_path, metavar="FILE")
FOLDER = ValueFormat("a/folder", lambda given: Path(given.value), metavar="DIR")
SWITCH = ValueFormat("", is_switch=True)
COUNT = ValueFormat("3", option_type=click.IntRange(1))
INTEGER = ValueFormat("9099", option_type=int)
NUMBER = ValueFormat("7.5", to_text=lambda number: str(number).removesuffix(".0"), option_type=click.FloatRange(1))
DURATION = ValueFormat("90s", _parse_seconds, _seconds_text, "DURATION")
CHECKPOINT_INTERVAL = ValueFormat("90s", _parse_checkpoint_seconds, lambda seconds: f"{seconds}s", "DURATION")
RETENTION = ValueFormat("36h", _parse_retention, _retention_text, "DURATION")
LAKE = ValueFormat("a/lake", _parse_lake, lambda lake: str(lake or "off"), "DIR|off")
TIME = ValueFormat("2026-01-01T00:00:00Z", _parse_since_us, metavar="TIME")
OTLP_RECEIVER = ValueFormat(
    "https://otlp.example", lambda given: otlp_receiver(given.value), lambda url: url or "off", "https://…|off"
)
