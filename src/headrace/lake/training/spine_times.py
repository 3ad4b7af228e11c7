"""The times of a spine, in any unambiguous form, as microseconds.

    timestamp                     2026-01-01 12:00 in any zone   as it is
    timestamp without a zone      2026-01-01 12:00               taken for UTC
    date                          2026-01-01                     its first moment in UTC
    text                          ISO 8601, zone or none         the same as above
    whole number                  1767268800 …                   since 1970: s, ms, µs or ns, told by its size

Everything else is rejected: a wrong guess of a time would make a wrong training set.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, StringType, TimestampNTZType, TimestampType

from headrace.errors import HeadraceError

ISO_8601 = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$"
DATE_ONLY, ZONE_SUFFIX = r"^\d{4}-\d{2}-\d{2}$", r"(Z|[+-]\d{2}(:?\d{2})?)$"
NO_SECONDS = r"^(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2})(Z|[+-]|$)"  # Spark accepts a zone only after seconds
HINT = "Write timestamps, or texts such as 2026-01-31T12:00:00Z"
# Numbers of the years 1990 to 2100 in each unit: the ranges do not overlap.
MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
MIN_SECONDS, MAX_SECONDS = 631_152_000, 4_102_444_800


class InvalidTimeColumnError(HeadraceError):
    """A column of a spine that is not unambiguously a time."""


class NumberRange(NamedTuple):
    """The least and the greatest number of a column; None where it has no values."""

    least: int | None
    greatest: int | None


def time_column_us(spine: DataFrame, name: str) -> Column:
    """The time column of a spine in microseconds; inspects the values where the type is ambiguous."""
    data_type, column = spine.schema[name].dataType, F.col(f"`{name}`")
    if isinstance(data_type, TimestampType):
        return F.unix_micros(column)
    if isinstance(data_type, TimestampNTZType):
        return F.unix_micros(F.concat(column.cast("string"), F.lit("Z")).cast("timestamp"))
    if isinstance(data_type, DateType):
        return F.unix_date(column).cast("bigint") * F.lit(86_400_000_000)
    if isinstance(data_type, StringType):
        return _parse_texts(spine, name)
    if isinstance(data_type, IntegralType):
        return _convert_numbers(spine, name, data_type)
    raise InvalidTimeColumnError(
        f"The spine's column {name!r} is {data_type.simpleString()}, which is no time. {HINT}."
    )


def _parse_texts(spine: DataFrame, name: str) -> Column:
    text = F.trim(F.col(f"`{name}`"))
    with_seconds = F.regexp_replace(text, NO_SECONDS, "$1:00$2")
    with_zone = (
        F.when(text.rlike(DATE_ONLY), F.concat(text, F.lit("T00:00:00Z")))
        .when(text.rlike(ZONE_SUFFIX), with_seconds)
        .otherwise(F.concat(with_seconds, F.lit("Z")))
    )
    time_us = F.unix_micros(with_zone.try_cast("timestamp"))
    parsed = F.when(text.rlike(ISO_8601), time_us)
    invalid_row = spine.where((F.length(text) > 0) & parsed.isNull()).select(f"`{name}`").first()
    if invalid_row is not None:
        raise InvalidTimeColumnError(
            f"The spine's column {name!r} is text, and {invalid_row[0]!r} in it is no time. {HINT}."
        )
    return parsed


def _convert_numbers(spine: DataFrame, name: str, data_type: DataType) -> Column:
    column = F.col(f"`{name}`")
    number_range = NumberRange(*spine.agg(F.min(column), F.max(column)).collect()[0])
    unit = detect_unit(number_range)
    if unit is None:
        raise InvalidTimeColumnError(
            f"The spine's column {name!r} is {data_type.simpleString()}, from {number_range.least} to "
            f"{number_range.greatest}: these are "
            f"not all seconds, milliseconds, microseconds or nanoseconds since 1970. {HINT}."
        )
    if unit == "ns":
        return nanos_to_micros(name)
    return column.cast("bigint") * F.lit(MICROS_PER_UNIT[unit])


def nanos_to_micros(name: str) -> Column:
    """Nanoseconds as microseconds, rounded down; also before 1970, and without conversion to doubles."""
    return F.expr(f"(`{name}` - pmod(`{name}`, 1000L)) div 1000L")


def detect_unit(number_range: NumberRange) -> str | None:
    """The unit that all numbers of a column are in; None where there is no such unit.

    >>> detect_unit(NumberRange(1_767_225_600, 1_767_225_700))
    's'
    >>> detect_unit(NumberRange(1_767_225_600_000, 1_767_225_700_000))
    'ms'
    >>> detect_unit(NumberRange(1_767_225_600, 1_767_225_600_000)) is None
    True
    """
    if number_range.least is None or number_range.greatest is None:
        return "us"
    for unit, per_second in {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}.items():
        if MIN_SECONDS * per_second <= number_range.least <= number_range.greatest < MAX_SECONDS * per_second:
            return unit
    return None
