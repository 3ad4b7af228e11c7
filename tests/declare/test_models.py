"""Declared models: their inputs, and for every mistake an error with the remedy."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import build_app, load_app

payments = hr.Stream(
    "payments",
    schema="id string, card string, country string, amount double, fraud boolean, n bigint, at timestamp",
    id="id",
    key="card",
    time="at",
)
clicks = hr.Stream("clicks", schema="id bigint, user string, at timestamp", id="id", key="user", time="at")
numbered = hr.Stream("numbered", schema="id bigint, fraud boolean, at timestamp", id="id", key="id", time="at")
SCHEMA = "id string, fraud boolean, reason string, at timestamp"
chargebacks = hr.Stream("chargebacks", schema=SCHEMA, id="id", key="id", time="at")
told = hr.Stream(
    "told", schema="id string, fraud boolean, loss double, class int, at timestamp", id="id", key="id", time="at"
)


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows=["10m", "1h"])
    favourite = hr.top("country", 3, windows="1h")
    seen = hr.first("at", windows="1h")
    country = hr.last("country", windows="1h")
    mean = hr.mean("amount", windows="1h")
    ratio = hr.request("amount", "double") / mean["1h"]


@hr.features(payments, by="country")
class Country:
    payments = hr.count(windows="10m")


@hr.features(payments, by="card")
class Seen:
    at = hr.last("at", windows="1h")


@hr.features(clicks, by="user")
class Clicks:
    clicks = hr.count(windows="1h")


@hr.features(payments, by="card")
class Asks:
    mean = hr.mean("amount", windows="1h")
    ratio = hr.request("n", "double") / mean["1h"]


def fit(frame: Any) -> Any:
    raise AssertionError("nobody trains in this test")


def model(**settings: Any) -> hr.Model:
    given: dict[str, Any] = {"on": payments, "features": [CardSpend], "fields": ["amount"], "train": fit} | settings
    return hr.Model(given.pop("name", "fraud"), **given)


def test_a_vector_is_every_single_value_of_the_views_and_then_the_fields() -> None:
    assert [(column.name, column.type) for column in model().vector] == [
        ("payments_10m", "bigint"),
        ("payments_1h", "bigint"),
        ("country_1h", "string"),
        ("mean_1h", "double"),
        ("ratio", "double"),
        ("amount", "double"),
    ]


def test_inputs_choose_the_columns_of_a_vector_and_their_order() -> None:
    assert model(inputs=["amount", "payments_1h"]).vector.names == ("amount", "payments_1h")


def test_a_model_is_a_value() -> None:
    assert model() == model()
    assert hash(model()) == hash(model())
    assert model() != model(budget="20ms")
    with pytest.raises(AttributeError):
        model().name = "other"  # type: ignore[misc]


def test_a_decision_is_the_highest_threshold_a_score_reaches() -> None:
    decided = model(thresholds={"block": 0.9, "review": 0.5}).decision
    assert [decided(score) for score in (0.1, 0.5, 0.899, 0.9, 1.0)] == [None, "review", "review", "block", "block"]
    assert decided(float("nan")) is None


def test_the_label_is_what_its_stream_says_or_the_column_label() -> None:
    assert model().label == "label"
    assert model(labels=hr.Labels(chargebacks, value="fraud", within="30m", default=False)).label == "fraud"


def test_a_file_lies_beside_the_app_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import headrace as hr\n"
        "s = hr.Stream('s', schema='id string, n double, at timestamp', id='id', key='id', time='at')\n"
        "V = hr.features(s, by='id')(type('V', (), {'n': hr.count(windows='1h')}))\n"
        "m = hr.Model('m', on=s, features=[V], file='m.onnx')\n"
    )
    app = load_app(str(tmp_path / "app.py"))
    assert app.model("m").file == tmp_path.resolve() / "m.onnx"
    with pytest.raises(hr.DeclarationError, match=r"no model 'other'\. It declares m"):
        app.model("other")


def module(**names: Any) -> ModuleType:
    made = ModuleType("shop")
    vars(made).update(names)
    return made


def test_an_app_has_its_models_and_all_they_read() -> None:
    labelled = model(labels=hr.Labels(chargebacks, value="fraud", within="30m"))
    app = build_app(module(fraud=labelled, again=labelled))
    assert app.models == (labelled,)
    assert app.views == (CardSpend,)
    assert app.streams == (payments, chargebacks)


@pytest.mark.parametrize("other", [{"budget": "1s"}, {"name": "CardSpend"}])
def test_two_declarations_of_one_name_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(hr.DeclarationError, match=r"two declarations are named '(fraud|CardSpend)'"):
        build_app(module(one=model(), two=model(**other)))


MISTAKES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("a name that is a path", {"name": "../fraud"}, ["'../fraud'", "Rename it"]),
    ("a name that is no text", {"name": 5}, ["Model 5", "Rename it"]),
    ("no stream", {"on": "payments"}, ["on='payments'", "on=payments"]),
    ("a view that is no list", {"features": CardSpend}, ["features=", "features=[CardSpend]"]),
    ("no views", {"features": []}, ["features=[]", "features=[CardSpend]"]),
    ("something that is no view", {"features": [5]}, ["5 is not a feature view", "@hr.features"]),
    ("a view twice", {"features": [CardSpend, CardSpend]}, ["CardSpend is in features= twice"]),
    ("a view no event has the key of", {"features": [Clicks]}, ["Clicks needs 'user'", "'payments'", "leave the view"]),
    ("a request of another type", {"features": [Asks]}, ["Asks needs 'n' as double", "integer", "Declare both alike"]),
    ("two columns of one name", {"features": [CardSpend, Country]}, ["named 'payments_10m'", "Rename the attribute"]),
    ("an unknown field", {"fields": ["amont"]}, ["fields", "'amont'", "columns are id, card"]),
    ("a field that is a time", {"fields": ["at"]}, ["'at', a timestamp", "numbers and texts"]),
    ("fields that are a text", {"fields": "amount"}, ["fields='amount'", 'fields=["amount"]']),
    ("a field twice", {"fields": ["amount", "amount"]}, ["'amount' twice"]),
    ("an unknown feature", {"inputs": ["spend_1h"]}, ["inputs= has 'spend_1h'", "no such feature", "payments_10m"]),
    ("a list as input", {"inputs": ["favourite_1h"]}, ["'favourite_1h', a list", "It can read payments_10m"]),
    ("a time as input", {"inputs": ["seen_1h"]}, ["'seen_1h', a list, a map or a time"]),
    ("no inputs", {"inputs": []}, ["no inputs", "It can read"]),
    ("nothing to read", {"features": [Seen], "fields": []}, ["no inputs", "no number, text or boolean"]),
    ("neither file nor train", {"train": None}, ["neither file= nor train=", 'file="fraud.onnx"']),
    ("both file and train", {"file": "fraud.onnx"}, ["both file= and train=", "Write"]),
    ("a train that is no function", {"train": "fit"}, ["train='fit'", "def fit(frame)"]),
    ("a pickle", {"train": None, "file": "fraud.pkl"}, ["'fraud.pkl' is not ONNX", "unpickled"]),
    ("a bad budget", {"budget": 50}, ["budget", "50", '"500ms"']),
    ("a budget of hours", {"budget": "1h"}, ["budget='1h'", "1ms to 60s"]),
    ("thresholds that are a number", {"thresholds": 0.5}, ["thresholds=0.5", '"review": 0.5']),
    ("a threshold that is text", {"thresholds": {"block": "0.9"}}, ["thresholds['block'] is '0.9'", "least score"]),
    ("a threshold that is true", {"thresholds": {"block": True}}, ["thresholds['block'] is True"]),
    ("a threshold that is NaN", {"thresholds": {"block": float("nan")}}, ["thresholds['block'] is nan"]),
    ("a threshold without a name", {"thresholds": {"": 0.5}}, ["thresholds= has ''", "Name the decision"]),
    ("two equal thresholds", {"thresholds": {"a": 1, "b": 1.0}}, ["two thresholds are 1", "Change one"]),
    ("labels that are a stream", {"labels": chargebacks}, ["labels=", "hr.Labels(chargebacks"]),
    ("its label among its inputs", {"labels": hr.Labels(payments, value="fraud", within="1h"), "fields": ["fraud"]},
     ["'fraud' is its label", "Leave it out"]),
    ("labels with an id of another type", {"labels": hr.Labels(numbered, value="fraud", within="1h")},
     ["'id' is string in 'payments' and integer in 'numbered'", "Declare both alike"]),
    ("a segment that is a text", {"segments": "country_1h"}, ["segments='country_1h'", "a list of names"]),
    ("a segment it does not read", {"segments": ["country"]}, ["segments", "'country'", "country_1h"]),
    ("a segment of doubles", {"segments": ["amount"]}, ["'amount', a double", "few values"]),
    ("five segments", {"segments": list("abcde")}, ["5 segments", "at most 4"]),
    ("costs that are a number", {"costs": 5}, ["costs=5", '"false_negative": 20']),
    ("costs of nothing", {"costs": {}}, ["costs={}", '"false_negative": 20']),
    ("costs of something else", {"costs": {"miss": 5}}, ["'miss'", "false_negative"]),
    ("a cost that is NaN", {"costs": {"false_positive": float("nan")}}, ["costs['false_positive'] is nan", "a number"]),
    ("costs without labels", {"costs": {"false_positive": 1}}, ["costs= are of true and false", "labels="]),
    ("costs of a regression", {"costs": {"false_positive": 1}, "labels": hr.Labels(told, value="loss", within="1h")},
     ["costs= are of true and false", "labels="]),
    ("costs at no threshold", {"costs": {"false_positive": 1}, "labels": hr.Labels(told, value="fraud", within="1d")},
     ["counted at a threshold", 'thresholds={"block": 0.9}']),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "said"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_model_with(settings: dict[str, Any], said: list[str]) -> None:
    assert_refused(lambda: model(**settings), said)


LABEL_MISTAKES: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("no stream", lambda: hr.Labels("chargebacks", value="fraud", within="1h"), ["'chargebacks' is not a stream"]),
    ("an unknown value", lambda: hr.Labels(chargebacks, value="frod", within="1h"), ["'frod'", "columns are"]),
    ("a text", lambda: hr.Labels(chargebacks, value="reason", within="1h"), ["value='reason' is string", "a boolean"]),
    ("a bad duration", lambda: hr.Labels(chargebacks, value="fraud", within="soon"), ["within", "'soon'", '"1h"']),
    ("a default of another type", lambda: hr.Labels(chargebacks, value="fraud", within="1h", default=0),
     ["default=0", "boolean", "leave it out"]),
    ("a default that is no class", lambda: hr.Labels(told, value="class", within="1h", default=2),
     ["default=2", "0 or 1", "make 'class' double"]),
    ("an unknown choice", lambda: hr.Labels(told, value="fraud", within="1h", keep="best"), ["'best'", '"last"']),
]  # fmt: skip


@pytest.mark.parametrize(("declare", "said"), [m[1:] for m in LABEL_MISTAKES], ids=[m[0] for m in LABEL_MISTAKES])
def test_labels_with(declare: Callable[[], Any], said: list[str]) -> None:
    assert_refused(declare, said)


DRIFT_MISTAKES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("a window of seconds", {"window": "90s"}, ["window='90s'", '"1h"']),
    ("a window of a year", {"window": "365d"}, ["window='365d'", '"90d"']),
    ("no duration", {"window": "soon"}, ["'soon'"]),
    ("no false alarms", {"alarms_a_day": 0}, ["alarms_a_day=0", "above 0"]),
    ("a text", {"least_psi": "0.1"}, ["least_psi='0.1'", "above 0"]),
    ("NaN", {"least_ks": float("nan")}, ["least_ks=nan", "above 0"]),
    ("less than nothing", {"least_share": -0.1}, ["least_share=-0.1", "above 0"]),
    ("half a row", {"least_rows": 0.5}, ["least_rows=0.5", "200"]),
]


@pytest.mark.parametrize(("settings", "said"), [m[1:] for m in DRIFT_MISTAKES], ids=[m[0] for m in DRIFT_MISTAKES])
def test_drift_with(settings: dict[str, Any], said: list[str]) -> None:
    assert_refused(lambda: hr.Drift(**settings), said)


def test_a_model_has_the_drift_of_an_hour_unless_it_says_otherwise() -> None:
    assert model().drift == hr.Drift("1h")
    assert model(drift=hr.Drift("1d", least_psi=0.2)).drift.least_psi == 0.2
    assert_refused(lambda: model(drift="1h"), ["drift='1h'", "hr.Drift"])


def assert_refused(declare: Callable[[], Any], said: list[str]) -> None:
    with pytest.raises(hr.DeclarationError) as refused:
        declare()
    assert all(part in str(refused.value) for part in said), str(refused.value)
