"""Binds aggregate declarations to a stream's columns, or says why they do not fit."""

from collections.abc import Sequence

from headrace.declare.durations import duration_text, duration_us
from headrace.declare.expressions import parse_condition
from headrace.declare.features.aggregate_rules import aggregate_rules, require_sketch_error
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import Window, parse_window
from headrace.declare.streams.schema import Schema
from headrace.errors import DeclarationError


def bind_aggregate(declaration: AggregateDeclaration, schema: Schema, where: str) -> Aggregate:
    """The aggregate a declaration means on a schema, or an error that says why it does not fit."""
    condition = None if declaration.where is None else parse_condition(declaration.where, schema, f"{where}: where")
    if declaration.column is None:
        return Aggregate(declaration.function, None, None, condition, None)
    kind, rules = schema.column(declaration.column, where).kind, aggregate_rules(declaration.function)
    if kind not in rules.accepted_kinds:
        accepted_names = ", ".join(sorted(accepted_kind.value for accepted_kind in rules.accepted_kinds))
        raise DeclarationError(
            f"{where}: {rules.describe()} {declaration.column!r}, which is {kind.value}. It takes {accepted_names}."
        )
    if declaration.error is not None:
        require_sketch_error(declaration.error, where)
    rules.require_options(declaration, where)
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


def _halflife_us(declaration: AggregateDeclaration, where: str) -> int | None:
    return None if declaration.halflife is None else duration_us(declaration.halflife, f"{where}: halflife")


def declared_windows(declaration: AggregateDeclaration) -> Sequence[str]:
    """The windows of a declaration, as written."""
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
