"""The times of a spine, in whatever form they clearly are, as microseconds.

    timestamp                     2026-01-01 12:00 in any zone   as it is
    timestamp without a zone      2026-01-01 12:00               taken for UTC
    date                          2026-01-01                     its first moment in UTC
    text                          ISO 8601, zone or none         the same as above
    whole number                  1767268800 …                   since 1970: s, ms, µs or ns, told by its size

Everything else is refused, for a time that is guessed wrong is a training set that is wrong.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, StringType, TimestampNTZType, TimestampType

from headrace.errors import HeadraceError

ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$"
DAY, ZONE = r"^\d{4}-\d{2}-\d{2}$", r"(Z|[+-]\d{2}(:?\d{2})?)$"
NO_SECONDS = r"^(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2})(Z|[+-]|$)"  # Spark takes a zone after seconds alone
WRITE = "Write timestamps, or texts such as 2026-01-31T12:00:00Z"
# Numbers of the years 1990 to 2100 in each unit: no number is of two.
UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
FIRST_S, LAST_S = 631_152_000, 4_102_444_800


class UnfitTime(HeadraceError):
    """A column of a spine that is not clearly a time."""


class Numbers(NamedTuple):
    """The least and the greatest number of a column; None where there is none."""

    least: int | None
    greatest: int | None


def times_us(spine: DataFrame, name: str) -> Column:
    """The column of times of a spine in microseconds; looks at the values where its type does not tell them."""
    kind, column = spine.schema[name].dataType, F.col(f"`{name}`")
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, TimestampNTZType):
        return F.unix_micros(F.concat(column.cast("string"), F.lit("Z")).cast("timestamp"))
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("bigint") * F.lit(86_400_000_000)
    if isinstance(kind, StringType):
        return _of_texts(spine, name)
    if isinstance(kind, IntegralType):
        return _of_numbers(spine, name, kind)
    raise UnfitTime(f"The spine's column {name!r} is {kind.simpleString()}, which is no time. {WRITE}.")


def _of_texts(spine: DataFrame, name: str) -> Column:
    text = F.trim(F.col(f"`{name}`"))
    whole = F.regexp_replace(text, NO_SECONDS, "$1:00$2")
    zoned = (
        F.when(text.rlike(DAY), F.concat(text, F.lit("T00:00:00Z")))
        .when(text.rlike(ZONE), whole)
        .otherwise(F.concat(whole, F.lit("Z")))
    )
    time_us = F.unix_micros(zoned.try_cast("timestamp"))
    parsed = F.when(text.rlike(ISO), time_us)
    wrong = spine.where((F.length(text) > 0) & parsed.isNull()).select(f"`{name}`").first()
    if wrong is not None:
        raise UnfitTime(f"The spine's column {name!r} is text, and {wrong[0]!r} in it is no time. {WRITE}.")
    return parsed


def _of_numbers(spine: DataFrame, name: str, kind: DataType) -> Column:
    column = F.col(f"`{name}`")
    found = Numbers(*spine.agg(F.min(column), F.max(column)).collect()[0])
    unit = unit_of(found)
    if unit is None:
        raise UnfitTime(
            f"The spine's column {name!r} is {kind.simpleString()}, from {found.least} to {found.greatest}: these are "
            f"not all seconds, milliseconds, microseconds or nanoseconds since 1970. {WRITE}."
        )
    if unit == "ns":
        return nanos_to_micros(name)
    return column.cast("bigint") * F.lit(UNITS[unit])


def nanos_to_micros(name: str) -> Column:
    """A column of nanoseconds in the microseconds they are in; before 1970 too, without a detour through doubles."""
    return F.expr(f"(`{name}` - pmod(`{name}`, 1000L)) div 1000L")


def unit_of(numbers: Numbers) -> str | None:
    """The unit that all numbers of a column are in; None where there is no such unit.

    >>> unit_of(Numbers(1_767_225_600, 1_767_225_700)), unit_of(Numbers(1_767_225_600_000, 1_767_225_700_000))
    ('s', 'ms')
    >>> unit_of(Numbers(1_767_225_600, 1_767_225_600_000)) is None
    True
    """
    if numbers.least is None or numbers.greatest is None:
        return "us"
    for unit, per_second in {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}.items():
        if FIRST_S * per_second <= numbers.least <= numbers.greatest < LAST_S * per_second:
            return unit
    return None
