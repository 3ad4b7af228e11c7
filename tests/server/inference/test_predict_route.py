"""POST /predict/MODEL: the score of an event on the store's features, and the features it used."""

import json
import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.client.protocol import ServerRefused
from headrace.declare.app import App
from headrace.embedded_servers.ports import HOST
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.http.responses import BadRequest, PayloadTooLarge
from headrace.server.inference.model_resolver import ModelServingContext
from headrace.server.inference.prediction_log import PredictionLog
from headrace.server.inference.request_events import EventReader
from headrace.tiles.events.event_parser import InvalidEventError, parse_event
from tests.models.cards import versions_of
from tests.models.networks import DOUBLE, summing, with_metadata
from tests.server.prediction_app import (
    EVENTS,
    INPUTS,
    NOW_MS,
    VIEWS,
    event,
    expected,
    filled,
    fraud,
    payments,
    predicting,
)
from tests.server.server_thread import Asking, board_of, serving

PATH = "/predict/fraud"
STAGES = ["wait", "read", "merge", "score"]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with predicting(fraud(tmp_path_factory.mktemp("model"))) as ask:
        yield ask


def total(features: dict[str, Any]) -> float:
    return sum(float(features[name]) for name in INPUTS)


@pytest.mark.parametrize("number", range(1, 5))
def test_an_event_is_scored_on_the_features_of_its_entities(ask: Asking, number: int) -> None:
    one = event(number, id="new", amount=90.5)
    said = ask("POST", PATH, one)
    assert said.status == 200, said.body
    answer = said.json
    assert answer["features"] == expected(one)
    assert answer["score"] == pytest.approx(total(answer["features"]), rel=1e-12)
    assert answer["decision"] == ("block" if answer["score"] >= 1000 else "review")
    assert (answer["model"], answer["degraded"], len(answer["version"])) == ("fraud", [], 12)
    newest = max(other["at"] for other in EVENTS if {other["card"], other["merchant"]} & {one["card"], one["merchant"]})
    assert 0 <= time.time() * 1000 - newest - answer["age_ms"] < 60_000


def test_an_entity_never_seen_has_the_defaults(tmp_path: Path) -> None:
    with predicting(fraud(tmp_path, summing(2, DOUBLE), inputs=["payments_1h", "amount"])) as ask:
        answer = ask("POST", PATH, {"card": "new", "merchant": "new", "amount": 5}).json
    names = ["payments_1h", "spend_1h", "largest_1h", "latest_1h", "share", "cards_1h", "amount"]
    assert answer["features"] == dict(zip(names, [0, None, None, None, None, 0, 5.0], strict=True))
    assert (answer["score"], answer["decision"], answer["age_ms"]) == (5.0, None, None)


@pytest.mark.parametrize("number", range(1, 4))
def test_with_include_an_event_is_in_its_own_windows(ask: Asking, number: int) -> None:
    one = event(number, id="new", amount=90.5, merchant="never", at=int(time.time() * 1000))
    answer = ask("POST", f"{PATH}?include=true", one).json
    wanted = expected(one, [*EVENTS, one])
    for name, value in answer["features"].items():
        assert value == (pytest.approx(wanted[name], rel=1e-12) if type(value) is float else wanted[name])
    assert answer["features"]["cards_1h"] == 1
    assert 0 <= answer["age_ms"] < 60_000
    assert ask("POST", PATH, one).json["features"] == expected(one)  # nothing of it stays


def test_an_included_event_without_a_time_happens_now(ask: Asking) -> None:
    one = {"card": "c1", "merchant": "m1", "amount": 7.0}
    answer = ask("POST", f"{PATH}?include=true", one).json
    assert answer["features"]["payments_1h"] == 11
    assert 0 <= answer["age_ms"] < 1000


def test_a_list_is_answered_by_a_list(ask: Asking) -> None:
    events = [event(number, id=f"new{number}") for number in range(120)]
    said = ask("POST", PATH, events)
    assert [answer["score"] for answer in said.json] == [ask("POST", PATH, one).json["score"] for one in events]
    assert ask("POST", PATH, []).json == []
    assert len(ask("POST", PATH, [event(1)] * 1000).json) == 1000
    included = ask("POST", f"{PATH}?include=true", events[:5]).json
    assert [answer["features"] for answer in included] == [
        ask("POST", f"{PATH}?include=true", one).json["features"] for one in events[:5]
    ]


def test_each_stage_is_told_in_server_timing(ask: Asking) -> None:
    stages = [part.strip().split(";dur=") for part in ask("POST", PATH, event(1)).headers["server-timing"].split(",")]
    assert [name for name, _ in stages] == STAGES
    assert all(0 <= float(ms) < 500 for _, ms in stages)


REFUSED: list[tuple[Any, str]] = [
    (b"{", "The body is not JSON. Write the fields of an event:"),
    (b"", "The body is not JSON."),
    (b"5", "The event is no object. Write its fields:"),
    ([[]], "Events[0] is no object. Write its fields:"),
    ({"merchant": "m", "amount": 1}, "The event has no 'card', which the model reads. Write it, or null."),
    ({"card": "c", "merchant": "m"}, "The event has no 'amount', which the model reads."),
    ({"card": None, "merchant": "m", "amount": 1}, "An event's 'card' is null, and it is the key of payments."),
    ([event(1), event(2, amount="x")], "Events[1] is not one of payments: wrong-type: column amount is not a double"),
    (event(1, units=2**40), "wrong-type: column units is not a int: 1099511627776."),
    (event(1, online=1), "wrong-type: column online is not a boolean: 1."),
    (event(1, at="noon"), "wrong-type: column at is not a timestamp: noon."),
    (event(1, amount=-1), "An event fails the check of payments: amount >= 0."),
    (event(1, at=NOW_MS + 10**7), "The gate would refuse the event: too-far-ahead: column at is more than 1m"),
]


@pytest.mark.parametrize(("body", "sentence"), REFUSED)
def test_what_the_gate_would_refuse_is_a_bad_request(ask: Asking, body: Any, sentence: str) -> None:
    said = ask("POST", PATH, body)
    assert (said.status, sentence in said.error) == (400, True), said.body


def test_a_late_event_is_scored_and_not_included(ask: Asking) -> None:
    late = event(1, at=NOW_MS - 10**7)
    assert ask("POST", PATH, late).status == 200
    said = ask("POST", f"{PATH}?include=true", late)
    assert (said.status, "Ask without include." in said.error) == (400, True)


@pytest.mark.parametrize("query", ["include", "include=1", "include=true&include=true", "x=1", "%00"])
def test_an_unknown_query_is_a_bad_request(ask: Asking, query: str) -> None:
    said = ask("POST", f"{PATH}?{query}", event(1))
    assert (said.status, "Write ?include=true" in said.error) == (400, True)


def test_included_windows_need_their_columns(tmp_path: Path) -> None:
    model = fraud(tmp_path, summing(2, DOUBLE), fields=[], inputs=["payments_1h", "cards_1h"])
    with predicting(model) as ask:
        body = {"card": "c1", "merchant": "m1", "amount": None}
        assert ask("POST", f"{PATH}?include=true", body).status == 200
        body.pop("amount")
        assert "has no 'amount'" in ask("POST", f"{PATH}?include=true", body).error


def test_null_nan_and_infinity_are_what_the_gate_takes_them_for(tmp_path: Path) -> None:
    with predicting(fraud(tmp_path, summing(1, DOUBLE), inputs=["payments_1h"])) as ask:
        for written, shown in [("null", None), ('"NaN"', "NaN"), ("NaN", "NaN"), ("1e999", "Infinity")]:
            said = ask("POST", PATH, f'{{"card": 5, "merchant": "m1", "amount": {written}}}')
            assert said.status == 200, said.body
            assert said.json["features"]["amount"] == shown
            assert said.json["features"]["payments_1h"] == 0  # the card 5 is the text "5"


def test_a_model_that_answers_no_number_is_unavailable(ask: Asking) -> None:
    said = ask("POST", PATH, event(1, amount="Infinity"))
    assert said.status == 503
    assert said.error.startswith("Model 'fraud' version ")
    assert " answers inf. Promote another version" in said.error
    assert ask("POST", PATH, event(1)).status == 200


def test_too_many_events_are_too_large(ask: Asking) -> None:
    said = ask("POST", PATH, [event(1)] * 1001)
    assert (said.status, said.error) == (413, "1001 events in one request are too many. Ask for 1000 at a time.")


def test_an_untrained_model_is_unavailable_and_the_server_is_not(tmp_path: Path) -> None:
    model = hr.Model("fraud", on=payments, features=[*VIEWS], fields=["amount"], train=lambda frame: frame)
    with predicting(model) as ask:
        said = ask("POST", PATH, event(1))
        assert (said.status, "has no champion. Train one:" in said.error) == (503, True)
        assert ask("GET", "/v2/health/ready").status == 200
        assert ask("GET", "/v2/models/fraud/ready").status == 503


class NotStarted(MemoryStoreReader):
    """A store that has not started to read its changelogs."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


def test_a_store_that_is_not_filled_yet_is_unavailable(tmp_path: Path) -> None:
    model = fraud(tmp_path)
    app = App("shop", (payments,), VIEWS, (model,))
    with predicting(model, NotStarted.create(app, "127.0.0.1:1")) as ask:
        said = ask("POST", PATH, event(1))
        assert (said.status, "/v2/health/ready" in said.error) == (503, True)


def test_several_models_are_asked_by_name(tmp_path: Path) -> None:
    one = fraud(tmp_path)
    other = hr.Model("other", on=payments, features=[*VIEWS], inputs=["payments_1h"], file=str(tmp_path / "o.onnx"))
    (tmp_path / "o.onnx").write_bytes(summing(1, DOUBLE))
    app = App("shop", (payments,), VIEWS, (one, other))
    with serving(app, MemoryStoreReader(filled(), None), board_of(app)) as ask:
        assert ask("POST", "/predict/other", event(1)).json["score"] == 10
        assert ask("POST", "/invocations/other", {"instances": [event(1)]}).json["predictions"][0]["score"] == 10
        assert "There is /predict/fraud, /predict/other" in ask("POST", "/predict/nobody", event(1)).error
        assert ask("POST", "/invocations", {"instances": [event(1)]}).status == 404


def test_predictions_are_counted(ask: Asking) -> None:
    ask("POST", PATH, event(1))
    text = ask("GET", "/metrics").body.decode()
    assert float(text.split('headrace_http_predictions_total{model="fraud"} ')[1].split("\n")[0]) >= 1
    assert 'headrace_predictions_lost_total{model="fraud"} 0.0' in text


def test_many_at_once_get_what_one_gets(ask: Asking) -> None:
    wanted = [ask("POST", PATH, event(number)).json["score"] for number in range(3)]
    wrong: list[Any] = []

    def often(number: int) -> None:
        for _ in range(50):
            said = ask("POST", PATH, event(number))
            if said.status != 200 or said.json["score"] != wanted[number]:
                wrong.append(said.body)

    threads = [threading.Thread(target=often, args=(number % 3,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


values = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8) | st.just("NaN")
times = st.sampled_from([NOW_MS, "2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z", -5])
rows = st.fixed_dictionaries(
    {"card": values, "merchant": values, "amount": values},
    optional={"id": values, "units": values, "online": values, "at": values | times, "more": values},
)


def as_the_gate(body: bytes) -> dict[str, Any] | str:
    """The event the gate reads, or its reason."""
    try:
        return parse_event(payments.schema, body)
    except InvalidEventError as reason:
        return str(reason)


@given(row=rows, spaces=st.sampled_from([(", ", ": "), (",", ":")]))
def test_an_event_is_read_as_the_gate_reads_it(row: dict[str, Any], spaces: tuple[str, str]) -> None:
    model = hr.Model("fraud", on=payments, features=[*VIEWS], fields=["amount"], file="fraud.onnx")
    body = json.dumps(row, separators=spaces).encode()
    gate = as_the_gate(body)
    if isinstance(gate, str):
        with pytest.raises(BadRequest, match=re.escape(f"is not one of payments: {gate}")):
            EventReader(model).parse_body(body, False)
        return
    if gate["card"] is None or (gate["amount"] is not None and gate["amount"] < 0):
        with pytest.raises(BadRequest):
            EventReader(model).parse_body(body, False)
        return
    ((found,), are_listed) = EventReader(model).parse_body(body, False)
    assert (repr(found), are_listed) == (repr(gate), False)
    ((again,), are_listed) = EventReader(model).parse_body(b"[" + body + b"]", True)
    assert (repr(again), are_listed) == (repr(gate), True)


def test_a_mebibyte_of_events_is_refused_before_it_is_read() -> None:
    model = hr.Model("fraud", on=payments, features=[*VIEWS], fields=["amount"], file="fraud.onnx")
    began = time.process_time()  # work, not waiting: other programs do not count
    for body in (b"[" + b"{}," * 349_000 + b"{}]", b"[" + b"NaN," * 250_000 + b"NaN]"):
        with pytest.raises(PayloadTooLarge):
            EventReader(model).parse_body(body, False)
    assert time.process_time() - began < 5


def test_the_client_gives_what_the_server_said(ask: Asking) -> None:
    client = hr.Client(f"http://{HOST}:{ask.port}")
    one = event(1, at=datetime.now(UTC))
    for include in (False, True):
        scored = client.predict("fraud", one, include=include)
        said = ask("POST", PATH + ("?include=true" if include else ""), one | {"at": one["at"].isoformat()}).json
        assert (scored.score, scored.decision, scored.features) == (said["score"], said["decision"], said["features"])
        assert (scored.model, scored.version, scored.degraded) == ("fraud", said["version"], ())
    with pytest.raises(ServerRefused, match="has no 'card'"):
        client.predict("fraud", {"amount": 1})
    client.close()


def test_a_split_answers_by_key_and_the_whole_request_by_one_line_up(tmp_path: Path) -> None:
    state = tmp_path / "state"
    versions = versions_of(state, *(summed(inputs) for inputs in (["amount"], ["payments_1h"])))
    versions.add_challenger("2", 0.5)
    model = hr.Model("fraud", on=payments, features=[*VIEWS], fields=["amount"], train=lambda frame: frame)
    with predicting(model, scoring=ModelServingContext(state, PredictionLog())) as ask:
        events = [event(1, card=f"c{number}", amount=77.0) for number in range(200)]
        answers = ask("POST", PATH, events).json
        alone = [ask("POST", PATH, one).json for one in events[:20]]
    assert {answer["version"] for answer in answers} == {"1", "2"}
    for answer in answers:
        wanted = 77.0 if answer["version"] == "1" else answer["features"]["payments_1h"]
        assert answer["score"] == wanted
    assert [answer["version"] for answer in alone] == [answer["version"] for answer in answers[:20]]


def test_promotions_under_load_fail_nothing_and_mix_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    versions = versions_of(state, *(summed(inputs) for inputs in (["amount"], ["payments_1h", "amount"])))
    model = hr.Model("fraud", on=payments, features=[*VIEWS], fields=["amount"], train=lambda frame: frame)
    wanted, wrong, seen = {"1": 77.0, "2": 87.0}, [], set()
    with predicting(model, scoring=ModelServingContext(state, PredictionLog())) as ask:
        ask("POST", PATH, event(1))
        done = threading.Event()

        def load() -> None:
            while not done.is_set():
                said = ask("POST", PATH, [event(1, amount=77.0)] * 3)
                answers = said.json if said.status == 200 else []
                found = {(one["version"], one["score"]) for one in answers}
                seen.update(version for version, _ in found)
                if len(found) != 1 or any(wanted[version] != score for version, score in found):
                    wrong.append(said.body)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(8):
            versions.promote("2" if number % 2 == 0 else "1")
            done.wait(0.3)
        done.set()
        for thread in threads:
            thread.join()
    assert (wrong, seen) == ([], {"1", "2"})


def summed(inputs: list[str]) -> bytes:
    """The bytes of a model that adds up these columns."""
    return with_metadata(summing(len(inputs), DOUBLE), **{"headrace.inputs": json.dumps(inputs)})


def test_the_page_lists_models(ask: Asking) -> None:
    page = ask("GET", "/").body.decode()
    assert f"POST {PATH}" in page
    assert all(name in page for name in INPUTS)
