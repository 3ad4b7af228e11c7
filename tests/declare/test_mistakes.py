"""Every mistake in a declaration fails at import, with the name, the value and the remedy."""

from collections.abc import Callable
from typing import Any

import pytest

import headrace as hr

SCHEMA = "id string, card string, amount double, n bigint, flag boolean, at timestamp"


def stream(**settings: Any) -> hr.Stream:
    given: dict[str, Any] = {"schema": SCHEMA, "id": "id", "key": "card", "time": "at"} | settings
    return hr.Stream(given.pop("name", "payments"), **given)


def view(feature: Any, **settings: Any) -> hr.View:
    given: dict[str, Any] = {"by": "card"} | settings
    return hr.features(stream(), **given)(type("CardSpend", (), {"spend": feature}))


STREAM_MISTAKES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("an unknown id", {"id": "uuid"}, ["'payments': id", "'uuid'", "columns are id, card"]),
    ("an unknown key", {"key": "kard"}, ["key", "'kard'", "columns are"]),
    ("an unknown time", {"time": "when"}, ["time", "'when'", "columns are"]),
    ("a time that is text", {"time": "card"}, ["time='card'", "Declare that column as timestamp"]),
    ("an unknown arrival", {"arrival": "seen"}, ["'payments': arrival", "'seen'", "columns are id, card"]),
    ("an empty arrival", {"arrival": ""}, ["arrival", "''", "columns are"]),
    ("an arrival that is a number", {"arrival": "n"}, ["arrival='n'", "Declare that column as timestamp"]),
    ("an id that is a double", {"id": "amount"}, ["id='amount'", "double", "Identify events by"]),
    ("a key that is a double", {"key": "amount"}, ["key='amount'", "Identify events by"]),
    ("no schema", {"schema": ""}, ["schema=''", "Write"]),
    ("a schema that is a list", {"schema": ["id"]}, ["schema=['id']", "Write"]),
    ("a column without a type", {"schema": "id string, card"}, ["'card'", "a name and a type"]),
    ("a column of an unknown type", {"schema": "id string, card text"}, ["'card'", "'text'", "Use one of string"]),
    ("two columns of one name", {"schema": "id string, id int"}, ["two columns named 'id'", "Rename"]),
    ("a bad topic name", {"name": "pay ments"}, ["'pay ments'", "Rename it"]),
    ("an empty topic name", {"name": ""}, ["''", "Rename it"]),
    ("a topic name that is taken", {"name": "payments.clean"}, ["'payments.clean'", "Headrace's own topics", "Rename"]),
    ("a late policy that is a duration", {"late": "2m"}, ["late='2m'", 'hr.Late("2m"']),
    ("no partitions", {"partitions": 0}, ["partitions=0", "from 1 to 1024"]),
    ("partitions that are true", {"partitions": True}, ["partitions=True", "whole number"]),
    ("a bad skew", {"ahead": "soon"}, ["ahead", "'soon'", '"10s"']),
    ("a check of an unknown column", {"check": "amont > 0"}, ["check", "'amont'", "columns are"]),
    ("a check that is no condition", {"check": "amount + 1"}, ["'amount + 1'", "true or false"]),
    ("a check that cannot be read", {"check": "amount >"}, ["check", "'amount >'"]),
    ("an empty check", {"check": ""}, ["check", "''"]),
    ("two checks", {"check": "n > 1; n > 2"}, ["check", "'n > 1; n > 2'"]),
    ("a check that is a function", {"check": "length(card) > 3"}, ["LENGTH(card)", "Use columns"]),
    ("a check that is a query", {"check": "select 1"}, ["'select 1'", "Use columns"]),
    ("a check on a table", {"check": "p.amount > 3"}, ["p.amount", "Use columns"]),
    ("a check with is", {"check": "flag is true"}, ["IS", "Use ="]),
    ("a check of text with a number", {"check": "card > 3"}, ["'>'", "card is string", "like with like"]),
    ("a check of a sum of text", {"check": "card + 1 > 3"}, ["'+'", "card is string"]),
    ("a check of a number that is no condition", {"check": "n and flag"}, ["'and'", "n is integer"]),
    ("a check of a great number", {"check": "n > 9223372036854775808"}, ["9223372036854775808", "64 bits", ".0"]),
    ("a check that is no text", {"check": 5}, ["check", "5", '"amount > 1000"']),
    ("in without a list", {"check": "n in (select 1)"}, ["IN", "x in ('a', 'b')"]),
]


@pytest.mark.parametrize(
    ("settings", "said"), [(s, said) for _, s, said in STREAM_MISTAKES], ids=[m[0] for m in STREAM_MISTAKES]
)
def test_a_stream_with(settings: dict[str, Any], said: list[str]) -> None:
    assert_refused(lambda: stream(**settings), said)


LATE_MISTAKES: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("an unknown policy", lambda: hr.Late("2m", then="ignore"), ["then='ignore'", '"drop", "side_output" or "update"']),
    ("a bad duration", lambda: hr.Late("2 minutes"), ["after", "'2 minutes'", '"2m"']),
    ("a number", lambda: hr.Late(120), ["after", "120", '"2m"']),
    ("update without until", lambda: hr.Late("2m", then="update"), ["until=None", 'until="1d" together']),
    ("until without update", lambda: hr.Late("2m", until="1d"), ["until='1d'", 'then="update"']),
    ("until before after", lambda: hr.Late("2m", then="update", until="1m"), ["until='1m'", "'2m'", "longer until"]),
]


@pytest.mark.parametrize(("declare", "said"), [m[1:] for m in LATE_MISTAKES], ids=[m[0] for m in LATE_MISTAKES])
def test_lateness_with(declare: Callable[[], Any], said: list[str]) -> None:
    assert_refused(declare, said)


VIEW_MISTAKES: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("an unknown column", lambda: view(hr.sum("amont", windows="1h")), ["CardSpend.spend", "'amont'", "columns are"]),
    ("a sum of text", lambda: view(hr.sum("card", windows="1h")), ["sum of 'card'", "string", "double"]),
    ("a sum of times", lambda: view(hr.sum("at", windows="1h")), ["sum of 'at'", "timestamp", "takes double, integer"]),
    ("a minimum of booleans", lambda: view(hr.min("flag", windows="1h")), ["min of 'flag'", "boolean", "takes"]),
    ("distinct doubles", lambda: view(hr.distinct("amount", windows="1h")), ["distinct of 'amount'", "takes boolean"]),
    ("an error of zero", lambda: view(hr.distinct("card", windows="1h", error=0.0)), ["error=0.0", "0.001 to 0.25"]),
    ("a window below its hop", lambda: view(hr.count(windows="1m", hop="5m")), ["'1m'", "'5m'", "longer window"]),
    ("a window below a second", lambda: view(hr.count(windows="500ms")), ["'500ms'", "hop '1s'", "shorter hop"]),
    ("a hop far too short", lambda: view(hr.count(windows="7d", hop="1s")), ["'7d'", "'1s'", "604,800", "longer hop"]),
    ("a half-life below a hop", lambda: view(hr.ewm("n", halflife="1m", windows="7d")), ["'1h'", "'7d'", "hop='1m'"]),
    ("a bad half-life", lambda: view(hr.ewm("n", halflife=60, windows="1h")), ["halflife", "60", '"1h"']),
    ("a weighted mean of text", lambda: view(hr.ewm("card", halflife="1h", windows="1h")), ["ewm of 'card'", "string"]),
    ("a top of nothing", lambda: view(hr.top("card", 0, windows="1h")), ["top 0", "from 1 to 100"]),
    ("a top of a text", lambda: view(hr.top("card", "3", windows="1h")), ["top '3'", "from 1 to 100"]),
    ("a top of doubles", lambda: view(hr.top("amount", 3, windows="1h")), ["top of 'amount'", "takes boolean"]),
    ("counts by an unknown column", lambda: view(hr.count(by="land", windows="1h")), ["CardSpend.spend", "'land'"]),
    ("counts by several columns", lambda: view(hr.count(by=["card"], windows="1h")), ["['card']", "columns are"]),
    ("counts by doubles", lambda: view(hr.count(by="amount", windows="1h")), ["count by 'amount'", "takes boolean"]),
    ("counts by times", lambda: view(hr.count(by="at", windows="1h")), ["count by 'at'", "timestamp", "takes boolean"]),
    ("counts too exact", lambda: view(hr.count(by="card", windows="1h", error=0.0)), ["error=0.0", "0.001 to 0.25"]),
    ("an error of a plain count", lambda: view(hr.count(windows="1h", error=0.1)), ["error=0.1", "exact", 'by="col']),
    ("a bad window", lambda: view(hr.count(windows="1 hour")), ["windows", "'1 hour'", '"1h"']),
    ("a window of zero", lambda: view(hr.count(windows="0s")), ["'0s'", "from 1ms to 3650d"]),
    ("a window of an age", lambda: view(hr.count(windows="3651d")), ["'3651d'", "3650d"]),
    ("forever, misspelt", lambda: view(hr.count(windows="for ever")), ["windows", "'for ever'", '"1h"']),
    ("a hop for ever", lambda: view(hr.count(windows="1h", hop="forever")), ["hop", "'forever'", '"10s"']),
    ("no windows", lambda: view(hr.count(windows=[])), ["windows=[]", 'windows=["10m", "1h"]']),
    ("a window that is a number", lambda: view(hr.count(windows=[60])), ["windows", "60", '"10s"']),
    ("a bad hop", lambda: view(hr.count(windows="1h", hop="often")), ["hop", "'often'", '"10s"']),
    ("a bad condition", lambda: view(hr.count(where="amount", windows="1h")), ["CardSpend.spend: where", "'amount'"]),
    ("two outputs of one name", lambda: view(hr.count(windows=["1h", "1h"])), ["'spend_1h'", "Rename one attribute"]),
    ("something that is no feature", lambda: view(5), ["CardSpend.spend", "5", "hr.count"]),
    ("an unknown entity", lambda: view(hr.count(windows="1h"), by="user"), ["CardSpend: by", "'user'", "columns are"]),
    ("no entity", lambda: view(hr.count(windows="1h"), by=[]), ["by=[]", 'by="card"']),
    ("one entity twice", lambda: view(hr.count(windows="1h"), by=["card", "card"]), ["'card', 'card'", "different"]),
    ("an entity in a list too many", lambda: view(hr.count(windows="1h"), by=[["card"]]), ["['card']", "columns are"]),
    ("a double as entity", lambda: view(hr.count(windows="1h"), by="amount"), ["by='amount'", "double", "Group by"]),
    ("a bad freshness", lambda: view(hr.count(windows="1h"), freshness="fast"), ["freshness", "'fast'", '"10s"']),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "said"), [m[1:] for m in VIEW_MISTAKES], ids=[m[0] for m in VIEW_MISTAKES])
def test_a_view_with(declare: Callable[[], Any], said: list[str]) -> None:
    assert_refused(declare, said)


def test_a_view_with_the_name_of_a_column_as_output() -> None:
    columns = stream(schema="id string, card string, at timestamp, spend_1h double")
    declare = hr.features(columns, by="card")
    assert_refused(lambda: declare(type("CardSpend", (), {"spend": hr.count(windows="1h")})), ["'spend_1h'", "Rename"])


def test_a_view_without_features() -> None:
    assert_refused(lambda: hr.features(stream(), by="card")(type("Empty", (), {})), ["Empty", "hr.count"])


def test_a_view_of_something_that_is_no_stream() -> None:
    declare = hr.features("payments", by="card")
    assert_refused(lambda: declare(type("CardSpend", (), {})), ["CardSpend", "'payments'", "hr.Stream"])


def test_a_view_whose_name_no_topic_can_have() -> None:
    declare = hr.features(stream(), by="card")
    assert_refused(lambda: declare(type("Café", (), {"n": hr.count(windows="1h")})), ["Café", "Rename", "ASCII"])


def assert_refused(declare: Callable[[], Any], said: list[str]) -> None:
    with pytest.raises(hr.DeclarationError) as refused:
        declare()
    for part in said:
        assert part in str(refused.value), str(refused.value)


def derived(build: Callable[[dict[str, Any]], Any], **attributes: Any) -> hr.View:
    """A view with a count, a text and one derived feature."""
    body = {"n": hr.count(windows=["10m", "1h"]), "card_seen": hr.last("card", windows="1h")}
    body |= {"tops": hr.top("card", 3, windows="1h"), "cards": hr.count(by="card", windows="1h")} | attributes
    return hr.features(stream(), by="card")(type("CardSpend", (), body | {"ratio": build(body)}))


DERIVED_MISTAKES: list[tuple[str, Callable[[dict[str, Any]], Any], list[str]]] = [
    ("a window that is not there", lambda body: body["n"]["7d"] / 2, ["CardSpend.ratio", "n['7d']", "10m, 1h"]),
    ("a text and a number", lambda body: body["card_seen"]["1h"] + 1, ["'+'", "card_seen_1h is string"]),
    ("an aggregate without a name", lambda _: hr.count(windows="1h")["1h"] / 2, ["no attribute of this view"]),
    ("a list of values", lambda body: body["tops"]["1h"] == "c1", ["tops_1h is a list", "hr.last"]),
    ("a map", lambda body: body["cards"]["1h"] + 1, ["cards_1h is a map", 'hr.count(where="card = …"']),
    ("a list", lambda body: body["n"]["1h"] + [1], ["[1]", "Write a number"]),
    ("an aggregate without its window", lambda body: body["n"]["1h"] / body["n"], ["with its window"]),
    ("and", lambda body: (body["n"]["1h"] > 1) and (body["n"]["10m"] > 1), ["Write & | ~"]),
    ("a condition that is a number", lambda body: hr.where(body["n"]["1h"], 1, 2), ["'if'", "n_1h is integer"]),
    ("a request of a bad type", lambda _: hr.request("amount", "money"), ["'money'", "Write one of string"]),
    ("a request without a name", lambda _: hr.request("a b", "double"), ["'a b'", "not a name"]),
    ("min of two columns", lambda _: hr.min("amount", "n"), ["hr.min('amount', 'n')", "windows="]),
]


@pytest.mark.parametrize(("build", "said"), [row[1:] for row in DERIVED_MISTAKES], ids=[m[0] for m in DERIVED_MISTAKES])
def test_a_mistake_in_a_derived_feature_is_said(build: Callable[[dict[str, Any]], Any], said: list[str]) -> None:
    with pytest.raises(hr.DeclarationError) as caught:
        derived(build)
    assert all(part in str(caught.value) for part in said), str(caught.value)


def test_a_derived_feature_has_a_name_of_its_own() -> None:
    count = hr.count(windows="1h")
    body = {"n": count, "n_1h": count["1h"] * 2}
    with pytest.raises(hr.DeclarationError, match="two outputs are named 'n_1h'"):
        hr.features(stream(), by="card")(type("CardSpend", (), body))


QUERY_MISTAKES: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("no name", lambda: hr.Query("", "select 1"), ["Query ''", "100 printable characters"]),
    ("a name that is none", lambda: hr.Query(None, "select 1"), ["Query None", "100 printable"]),  # type: ignore[arg-type]
    ("a name of two lines", lambda: hr.Query("a\nb", "select 1"), ["100 printable characters"]),
    ("no SQL", lambda: hr.Query("top", " "), ["Query 'top'", "' ' is no SQL", "from live.CardSpend"]),
    ("SQL that is a list", lambda: hr.Query("top", ["select"]), ["['select'] is no SQL"]),  # type: ignore[arg-type]
    ("no duration", lambda: hr.Query("top", "select 1", every="often"), ["Query 'top': every", "'often'", '"10s"']),
    ("a duration too short", lambda: hr.Query("top", "select 1", every="100ms"), ["every='100ms'", '"1s" or more']),
]


@pytest.mark.parametrize(("declare", "said"), [m[1:] for m in QUERY_MISTAKES], ids=[m[0] for m in QUERY_MISTAKES])
def test_a_query_with(declare: Callable[[], Any], said: list[str]) -> None:
    assert_refused(declare, said)
