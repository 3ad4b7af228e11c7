"""What an aggregate means on a stream's columns, or the reason it has no meaning there."""

from collections.abc import Sequence

from headrace.declare.aggregates import Aggregate, Declared
from headrace.declare.durations import duration_text, duration_us
from headrace.declare.expressions import NUMBERS, parse
from headrace.declare.schema import Kind, Schema
from headrace.declare.windows import Window, window_of
from headrace.errors import DeclarationError

LONGEST_TOP = 100
ORDERED = NUMBERS | {Kind.STRING, Kind.TIMESTAMP}
COUNTABLE = {Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.TIMESTAMP}
KINDS_TAKEN = {
    "sum": NUMBERS,
    "mean": NUMBERS,
    "stddev": NUMBERS,
    "var": NUMBERS,
    "quantile": NUMBERS,
    "ewm": NUMBERS,
    "min": ORDERED,
    "max": ORDERED,
    "first": set(Kind),
    "last": set(Kind),
    "distinct": COUNTABLE,
    "top": COUNTABLE - {Kind.TIMESTAMP},
    "count_by": COUNTABLE - {Kind.TIMESTAMP},
}


def bind(declared: Declared, schema: Schema, where: str) -> Aggregate:
    """The aggregate a declaration means on a schema, or the reason it has no meaning there."""
    condition = None if declared.where is None else parse(declared.where, schema, f"{where}: where")
    if declared.column is None:
        return Aggregate(declared.function, None, None, condition, None)
    kind = schema.column(declared.column, where).kind
    taken = KINDS_TAKEN[declared.function]
    if kind not in taken:
        names = ", ".join(sorted(other.value for other in taken))
        raise DeclarationError(
            f"{where}: {_spoken(declared)} {declared.column!r}, which is {kind.value}. It takes {names}."
        )
    if declared.error is not None:
        _require_error(declared.error, where)
    if declared.function == "quantile":
        _require_share(declared.share, where)
    if declared.function == "top":
        _require_k(declared.k, where)
    return Aggregate(
        declared.function,
        declared.column,
        kind,
        condition,
        declared.error,
        declared.share,
        _halflife_us(declared, where),
        declared.k,
    )


def _spoken(declared: Declared) -> str:
    return "count by" if declared.function == "count_by" else f"{declared.function} of"


def _halflife_us(declared: Declared, where: str) -> int | None:
    return duration_us(declared.halflife, f"{where}: halflife") if declared.function == "ewm" else None


def _require_error(error: object, where: str) -> None:
    if not isinstance(error, float) or not 0.001 <= error <= 0.25:
        raise DeclarationError(f"{where}: error={error!r}. Write a relative error from 0.001 to 0.25.")


def _require_share(share: object, where: str) -> None:
    if type(share) not in {int, float} or not 0 <= share <= 1:  # type: ignore[operator]  # a number by now
        raise DeclarationError(f"{where}: quantile {share!r}. Write a share from 0 to 1, such as 0.5 for the median.")


def _require_k(k: object, where: str) -> None:
    if type(k) is not int or not 1 <= k <= LONGEST_TOP:
        raise DeclarationError(f"{where}: top {k!r}. Write how many values to give, from 1 to {LONGEST_TOP}.")


def written_windows(declared: Declared) -> Sequence[str]:
    """The windows of a declaration, as they were written."""
    return [declared.windows] if isinstance(declared.windows, str) else declared.windows


def windows_of(declared: Declared, where: str) -> tuple[Window, ...]:
    """The windows of a declaration, each with its hop."""
    written = written_windows(declared)
    if not isinstance(written, list | tuple) or not written:
        raise DeclarationError(
            f"{where}: windows={declared.windows!r}. "
            'Write one or several durations, such as windows=["10m", "1h"], or "forever".'
        )
    windows = tuple(window_of(text, declared.hop, where) for text in written)
    for window in windows:
        _require_halflife(declared, window, where)
    return windows


def _require_halflife(declared: Declared, window: Window, where: str) -> None:
    halflife_us = _halflife_us(declared, where)
    if halflife_us is not None and halflife_us < window.hop_us:
        hop = duration_text(window.hop_us)
        raise DeclarationError(
            f"{where}: halflife={declared.halflife!r} is shorter than {hop!r}, the hop of the window {window.text!r}. "
            f"Write halflife={hop!r} or longer, hop={declared.halflife!r} or shorter, or a shorter window."
        )
