"""A view with every aggregate over every window, over the columns of the hostile streams."""

from collections.abc import Sequence
from dataclasses import replace

import headrace as hr
from headrace.aggregates.aggregate_function import AggregateFunction, aggregate_functions
from headrace.declare.features.aggregates import AggregateDeclaration
from headrace.declare.features.view import View
from headrace.declare.streams.schema import Kind
from tests.oracle.streams import CHECK, SCHEMA

WINDOWS = ["1m", "10m", "1h", "7d", "forever"]


def hostile_stream(name: str, late: hr.Late) -> hr.Stream:
    """The declaration of a hostile stream."""
    return hr.Stream(name, schema=SCHEMA, id="id", key="card", time="at", late=late, check=CHECK)


NAMED = {"count", "count_by", "sum", "mean", "stddev", "var", "quantile", "ewm", "min", "max", "first", "last"}
NAMED |= {"distinct", "top"}
COLUMNS = {
    Kind.DOUBLE: "amount",
    Kind.INTEGER: "units",
    Kind.STRING: "label",
    Kind.TIMESTAMP: "seen",
    Kind.BOOLEAN: "flag",
}


def declared(function: AggregateFunction, kind: Kind) -> AggregateDeclaration:
    """An aggregate function as its usage is written in the docs, over a column of a kind."""
    declaration: AggregateDeclaration = eval(function.usage, {"hr": hr, "c": COLUMNS[kind]})
    return declaration


def functions_of_their_own_word() -> dict[str, AggregateDeclaration]:
    """Every aggregate function that is not named below: a new one is right on every path, or tests fail."""
    return {
        f"{function.name}_{kind.value}": replace(
            declared(function, kind), where="abs(amount) < 1e9" if kind is Kind.DOUBLE else None, windows=WINDOWS
        )
        for function in aggregate_functions()
        for kind in sorted(function.accepted_kinds, key=lambda one: one.value)
        if function.name not in NAMED
    }


def every_aggregate(name: str, stream: hr.Stream | Sequence[hr.Stream], by: str | Sequence[str]) -> View:
    """Every aggregate × every window, by an entity."""

    others = functions_of_their_own_word()

    @hr.features(stream, by=by)
    class Everything:
        number = hr.count(windows=WINDOWS)
        large = hr.count(where="amount > 100 or label in ('a', 'é')", windows=WINDOWS)
        sum_int = hr.sum("units", windows=WINDOWS)
        sum_double = hr.sum("amount", windows=WINDOWS)
        sum_some = hr.sum("amount", where="units % 2 = 0 and not flag", windows=WINDOWS)
        mean_int = hr.mean("units", windows=WINDOWS)
        mean_double = hr.mean("amount", windows=WINDOWS)
        stddev_int = hr.stddev("shop", windows=WINDOWS)
        stddev_double = hr.stddev("amount", where="amount < 1e9", windows=WINDOWS)
        var_double = hr.var("amount", where="amount < 1e9", windows=WINDOWS)
        median_double = hr.quantile("amount", 0.5, windows=WINDOWS)
        high_int = hr.quantile("units", 0.9, where="not flag", windows=WINDOWS)
        least_double = hr.quantile("amount", 0, windows=WINDOWS)
        ewm_double = hr.ewm("amount", halflife="1d", windows=WINDOWS)
        ewm_int = hr.ewm("units", halflife="1m", where="not flag", windows=WINDOWS[:3])
        ewm_some = hr.ewm("amount", halflife="1h", where="abs(amount) < 1e9", windows=WINDOWS[:4])
        min_double = hr.min("amount", windows=WINDOWS)
        max_double = hr.max("amount", windows=WINDOWS)
        min_int = hr.min("units", windows=WINDOWS)
        max_int = hr.max("units", windows=WINDOWS)
        min_text = hr.min("label", windows=WINDOWS)
        max_text = hr.max("label", windows=WINDOWS)
        min_time = hr.min("seen", windows=WINDOWS)
        max_time = hr.max("seen", windows=WINDOWS)
        first_text = hr.first("label", windows=WINDOWS)
        last_text = hr.last("label", windows=WINDOWS)
        first_double = hr.first("amount", windows=WINDOWS)
        last_time = hr.last("seen", windows=WINDOWS)
        last_flag = hr.last("flag", where="coalesce(amount, 1) / units > 0", windows=WINDOWS)
        labels = hr.distinct("label", windows=WINDOWS)
        numbers = hr.distinct("units", error=0.01, windows=WINDOWS)
        times = hr.distinct("seen", windows=WINDOWS)
        top_text = hr.top("label", 3, windows=WINDOWS)
        top_int = hr.top("units", 5, error=0.01, where="amount > 0", windows=WINDOWS)
        top_flag = hr.top("flag", 2, windows=WINDOWS)
        by_text = hr.count(by="label", windows=WINDOWS)
        by_int = hr.count(by="units", error=0.01, where="amount > 0", windows=WINDOWS)
        by_flag = hr.count(by="flag", where="units > 0", windows=WINDOWS)

        vars().update(others)

    return replace(Everything, name=name)
