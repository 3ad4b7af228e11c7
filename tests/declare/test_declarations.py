"""The meaning of valid declarations."""

from importlib import import_module

import pytest

import headrace as hr
from headrace.aggregates.aggregate_function import to_slot
from headrace.aggregates.sketches.sketch_sizes import hyperloglog_lg_k
from headrace.declare.durations import duration_text, duration_us
from headrace.declare.expressions import Call, Field, Literal, field_names, parse_condition
from headrace.declare.features.windows import HOPS_US, choose_hop_us
from headrace.declare.streams.schema import Kind, parse_schema
from headrace.tiles.layout import hop_layouts

SCHEMA = "id string, card string, amount double, n bigint, flag boolean, at timestamp"
COLUMNS = parse_schema(SCHEMA, "test")
payments = hr.Stream("payments", schema=SCHEMA, id="id", key="card", time="at")


def test_a_view_has_one_output_for_each_window() -> None:
    @hr.features(payments, by=["card", "flag"], freshness="1s")
    class CardSpend:
        """Has a docstring."""

        payments = hr.count(windows=["10m", "1h"])
        spend = hr.sum("amount", windows="7d")

    assert CardSpend.names == ("payments_10m", "payments_1h", "spend_7d")
    assert [column.name for column in CardSpend.entity] == ["card", "flag"]
    assert (CardSpend.topic, CardSpend.freshness_us) == ("CardSpend.tiles", 1_000_000)


@pytest.mark.parametrize(
    ("window", "hop"),
    [("1s", "1s"), ("10s", "1s"), ("1m", "1s"), ("4m", "5s"), ("10m", "10s"), ("1h", "1m"), ("1d", "15m"), ("7d", "1h"),
     ("30d", "6h"), ("365d", "1d")],
)  # fmt: skip
def test_a_hop_is_at_most_a_48th_of_its_window(window: str, hop: str) -> None:
    length_us = duration_us(window, "window")
    assert duration_text(choose_hop_us(length_us)) == hop
    assert choose_hop_us(length_us) in HOPS_US


@pytest.mark.parametrize("text", ["1ms", "500ms", "90s", "2m", "1h", "7d", "3650d"])
def test_a_duration_comes_back_as_it_was_written(text: str) -> None:
    assert duration_text(duration_us(text, "test")) == text


@pytest.mark.parametrize(
    "text", ["", "1", "s", "-1s", "1.5h", "1H", " 1s", "1s ", "1s\n", "١s", "9" * 5000 + "s", None, 5, b"1s"]
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(hr.DeclarationError, match="Write a number and a unit"):
        duration_us(text, "test")


def test_a_schema_is_read_as_spark_reads_it() -> None:
    schema = parse_schema("a STRING, `b c` integer, d: long, e real,\n f bool", "test")
    assert [(column.name, column.type) for column in schema] == [
        ("a", "string"),
        ("b c", "int"),
        ("d", "bigint"),
        ("e", "float"),
        ("f", "boolean"),
    ]
    assert schema.column("e", "test").kind is Kind.DOUBLE


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("n > -9223372036854775808", Call(">", (Field("n"), Literal(-(2**63))))),
        ("n > - n", Call(">", (Field("n"), Call("-", (Literal(0), Field("n")))))),
        ("amount > 1e3", Call(">", (Field("amount"), Literal(1000.0)))),
        ("card = 'it\\'s'", Call("=", (Field("card"), Literal("it's")))),
        ("n is not null", Call("not", (Call("is null", (Field("n"),)),))),
        ("n in (1, 2)", Call("or", (Call("=", (Field("n"), Literal(1))), Call("=", (Field("n"), Literal(2)))))),
        (
            "n between 1 and 2",
            Call("and", (Call(">=", (Field("n"), Literal(1))), Call("<=", (Field("n"), Literal(2))))),
        ),
        ("`flag`", Field("flag")),
        ("(true)", Literal(True)),
    ],
)
def test_a_condition_is_a_small_tree(text: str, tree: object) -> None:
    assert parse_condition(text, COLUMNS, "test") == tree


def test_a_long_list_makes_no_deep_tree() -> None:
    tree = parse_condition(f"n in ({', '.join(map(str, range(5_000)))})", COLUMNS, "test")
    assert field_names(tree) == {"n"}


def test_literals_of_different_types_are_different() -> None:
    assert len({Literal(1), Literal(1.0), Literal(True), Literal("1"), Literal(1)}) == 4


def test_features_that_fold_the_same_share_one_partial() -> None:
    @hr.features(payments, by="card")
    class CardSpend:
        spend = hr.sum("amount", windows=["1h", "2h"], hop="1m")
        mean = hr.mean("amount", windows="1h")
        large = hr.sum("amount", where="n > 1", windows="1h")
        larger = hr.sum("amount", where="n > 1.0", windows="1h")

    (layout,) = hop_layouts(CardSpend)
    assert len(layout.slots) == 3
    assert layout.retention_us == duration_us("2h", "test") + duration_us("1m", "test")


def test_a_map_of_counts_shares_the_sketch_of_a_top_with_its_column_condition_and_error() -> None:
    @hr.features(payments, by="card")
    class CardSpend:
        favourites = hr.top("n", 3, windows="1h")
        numbers = hr.count(by="n", windows="1h")
        finer = hr.count(by="n", windows="1h", error=0.01)
        some = hr.count(by="n", windows="1h", where="n > 1")

    (layout,) = hop_layouts(CardSpend)
    assert len(layout.slots) == 3
    assert to_slot(CardSpend.features[0].aggregate) == to_slot(CardSpend.features[1].aggregate)


def test_a_lifetime_window_stands_beside_others_and_has_tiles_of_a_day() -> None:
    @hr.features(payments, by="card")
    class CardSpend:
        spend = hr.sum("amount", windows=["1h", "forever"])
        fine = hr.count(windows="forever", hop="1m")
        share = spend["1h"] / spend["forever"]

    assert CardSpend.names == ("spend_1h", "spend_forever", "fine_forever", "share")
    minute, day = hop_layouts(CardSpend)
    assert (duration_text(minute.hop_us), duration_text(day.hop_us)) == ("1m", "1d")
    assert minute.is_kept_forever
    assert day.is_kept_forever


def test_the_version_of_a_layout_changes_with_what_its_tiles_hold() -> None:
    def version(**settings: str) -> str:
        body = {"spend": hr.sum("amount", windows="1h", **settings)}
        return hop_layouts(hr.features(payments, by="card")(type("CardSpend", (), body)))[0].version

    assert version() == version()
    assert len({version(), version(where="n > 1"), version(where="n > 2"), version(hop="30s")}) == 4


@pytest.mark.parametrize("error", [0.25, 0.1, 0.05, 0.02, 0.01, 0.001])
def test_a_sketch_is_large_enough_for_its_error(error: float) -> None:
    lg_k = hyperloglog_lg_k(error)
    assert 4 <= lg_k <= 21
    assert 1.04 / 2 ** (lg_k / 2) <= error


def test_the_logarithm_is_not_hidden_by_the_room_of_its_name() -> None:
    import_module("headrace.kafka.client.client")
    assert callable(hr.log)


@pytest.mark.parametrize("name", ["load", "LOAD", "set", "comment", "cache", "update", "`call`", "`show`"])
def test_a_condition_may_read_a_column_that_is_called_as_a_statement(name: str) -> None:
    column = name.strip("`")
    schema = f"id string, card string, {column} double, at timestamp"
    stream = hr.Stream("payments", schema=schema, id="id", key="card", time="at", check=f"{name} >= 0")
    assert stream.check is not None


def test_a_condition_that_a_keyword_spoils_says_how_to_write_the_column() -> None:
    schema = "id string, card string, call double, at timestamp"
    with pytest.raises(hr.DeclarationError, match="between backticks: `call` > 1"):
        hr.Stream("payments", schema=schema, id="id", key="card", time="at", check="call >= 0")
