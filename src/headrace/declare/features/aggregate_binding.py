"""What an aggregate means on a stream's columns, or the reason it has no meaning there."""

from collections.abc import Sequence

from headrace.declare.durations import duration_text, duration_us
from headrace.declare.expressions import NUMBER_KINDS, parse_condition
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import Window, parse_window
from headrace.declare.streams.schema import Kind, Schema
from headrace.errors import DeclarationError

MAX_TOP_K = 100
ORDERED_KINDS = NUMBER_KINDS | {Kind.STRING, Kind.TIMESTAMP}
COUNTABLE_KINDS = {Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.TIMESTAMP}
ACCEPTED_KINDS = {
    "sum": NUMBER_KINDS,
    "mean": NUMBER_KINDS,
    "stddev": NUMBER_KINDS,
    "var": NUMBER_KINDS,
    "quantile": NUMBER_KINDS,
    "ewm": NUMBER_KINDS,
    "min": ORDERED_KINDS,
    "max": ORDERED_KINDS,
    "first": set(Kind),
    "last": set(Kind),
    "distinct": COUNTABLE_KINDS,
    "top": COUNTABLE_KINDS - {Kind.TIMESTAMP},
    "count_by": COUNTABLE_KINDS - {Kind.TIMESTAMP},
}


def bind_aggregate(declaration: AggregateDeclaration, schema: Schema, where: str) -> Aggregate:
    """The aggregate a declaration means on a schema, or the reason it has no meaning there."""
    condition = None if declaration.where is None else parse_condition(declaration.where, schema, f"{where}: where")
    if declaration.column is None:
        return Aggregate(declaration.function, None, None, condition, None)
    kind = schema.column(declaration.column, where).kind
    accepted_kinds = ACCEPTED_KINDS[declaration.function]
    if kind not in accepted_kinds:
        accepted_names = ", ".join(sorted(accepted_kind.value for accepted_kind in accepted_kinds))
        raise DeclarationError(
            f"{where}: {_describe_aggregate(declaration)} {declaration.column!r}, which is {kind.value}. It takes "
            f"{accepted_names}."
        )
    if declaration.error is not None:
        _require_error(declaration.error, where)
    if declaration.function == "quantile":
        _require_share(declaration.share, where)
    if declaration.function == "top":
        _require_k(declaration.k, where)
    return Aggregate(
        declaration.function,
        declaration.column,
        kind,
        condition,
        declaration.error,
        declaration.share,
        _halflife_us(declaration, where),
        declaration.k,
    )


def _describe_aggregate(declaration: AggregateDeclaration) -> str:
    return "count by" if declaration.function == "count_by" else f"{declaration.function} of"


def _halflife_us(declaration: AggregateDeclaration, where: str) -> int | None:
    return duration_us(declaration.halflife, f"{where}: halflife") if declaration.function == "ewm" else None


def _require_error(error: object, where: str) -> None:
    if not isinstance(error, float) or not 0.001 <= error <= 0.25:
        raise DeclarationError(f"{where}: error={error!r}. Write a relative error from 0.001 to 0.25.")


def _require_share(share: object, where: str) -> None:
    if type(share) not in {int, float} or not 0 <= share <= 1:  # type: ignore[operator]  # a number by now
        raise DeclarationError(f"{where}: quantile {share!r}. Write a share from 0 to 1, such as 0.5 for the median.")


def _require_k(k: object, where: str) -> None:
    if type(k) is not int or not 1 <= k <= MAX_TOP_K:
        raise DeclarationError(f"{where}: top {k!r}. Write how many values to give, from 1 to {MAX_TOP_K}.")


def declared_windows(declaration: AggregateDeclaration) -> Sequence[str]:
    """The windows of a declaration, as they were written."""
    return [declaration.windows] if isinstance(declaration.windows, str) else declaration.windows


def parse_windows(declaration: AggregateDeclaration, where: str) -> tuple[Window, ...]:
    """The windows of a declaration, each with its hop."""
    window_texts = declared_windows(declaration)
    if not isinstance(window_texts, list | tuple) or not window_texts:
        raise DeclarationError(
            f"{where}: windows={declaration.windows!r}. "
            'Write one or several durations, such as windows=["10m", "1h"], or "forever".'
        )
    windows = tuple(parse_window(text, declaration.hop, where) for text in window_texts)
    for window in windows:
        _require_halflife(declaration, window, where)
    return windows


def _require_halflife(declaration: AggregateDeclaration, window: Window, where: str) -> None:
    halflife_us = _halflife_us(declaration, where)
    if halflife_us is not None and halflife_us < window.hop_us:
        hop = duration_text(window.hop_us)
        raise DeclarationError(
            f"{where}: halflife={declaration.halflife!r} is shorter than {hop!r}, the hop of the window "
            f"{window.text!r}. "
            f"Write halflife={hop!r} or longer, hop={declaration.halflife!r} or shorter, or a shorter window."
        )
