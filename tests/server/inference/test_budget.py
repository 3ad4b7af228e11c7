"""An answer within the time budget, if need be a degraded one: a slow or lost store, a failing model."""

import logging
import os
import signal
import time
from pathlib import Path

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.embedded_servers.ports import HOST, free_port
from headrace.models.versions.version_store import VersionStore
from headrace.online_store.factory import create_store_reader
from headrace.online_store.shared_store_reader import SharedStoreReader
from headrace.server.inference.model_resolver import ModelServingContext
from headrace.server.inference.prediction_log import PredictionLog
from tests.models.cards import card_for
from tests.models.networks import DOUBLE, summing, with_metadata
from tests.online_store.conftest import own_redis  # noqa: F401  # a fixture
from tests.server.prediction_app import EVENTS, INPUTS, VIEWS, event, fraud, payments, predicting
from tests.server.server_thread import tiles_of
from tests.servers import OwnRedis
from tests.waiting import wait_until

PATH = "/predict/fraud"
NOWHERE = "127.0.0.1:1"
DEFAULTS = {"payments_1h": 0, "cards_1h": 0}


def redis_store(model: hr.Model, url: str) -> SharedStoreReader:
    return create_store_reader(App("shop", (payments,), VIEWS, (model,)), NOWHERE, url)


def filled(online: SharedStoreReader) -> SharedStoreReader:
    for view in VIEWS:
        online.store.apply(tiles_of(view, EVENTS))
    return online


def test_redis_is_scored_from_as_memory_is(own_redis: OwnRedis, tmp_path: Path) -> None:  # noqa: F811
    model = fraud(tmp_path)
    with predicting(model) as memory:
        wanted = [memory("POST", PATH + query, event(1)).json for query in ("", "?include=true")]
    with predicting(model, filled(redis_store(model, own_redis.url))) as ask:
        found = [ask("POST", PATH + query, event(1)).json for query in ("", "?include=true")]
    assert [one["features"] for one in found] == [one["features"] for one in wanted]
    assert [one["score"] for one in found] == [one["score"] for one in wanted]


@pytest.mark.parametrize("url", ["redis://{host}:{port}", "unix:///nowhere/{port}.sock"])
@pytest.mark.parametrize("query", ["", "?include=true"])
def test_a_store_that_is_gone_is_answered_with_defaults(tmp_path: Path, url: str, query: str) -> None:
    model = fraud(tmp_path)
    with predicting(model, redis_store(model, url.format(host=HOST, port=free_port()))) as ask:
        answer = ask("POST", PATH + query, event(5)).json
        assert (answer["degraded"], answer["score"]) == (["store"], 6.0)
        assert answer["features"].items() >= DEFAULTS.items()
        text = ask("GET", "/metrics").body.decode()
        assert 'headrace_http_predictions_degraded_total{model="fraud",reason="store"} 1.0' in text


def test_a_store_that_hangs_is_not_waited_for_longer_than_the_budget(
    own_redis: OwnRedis,  # noqa: F811
    tmp_path: Path,
) -> None:
    model = fraud(tmp_path, budget="100ms")
    with predicting(model, filled(redis_store(model, own_redis.url))) as ask:
        wait_until(lambda: ask("POST", PATH, event(1)).json["degraded"] == [], 5, "an answer within the budget")
        os.kill(own_redis.pid, signal.SIGSTOP)
        try:
            for _ in range(5):
                began = time.perf_counter()
                answer = ask("POST", PATH, event(1)).json  # while the store hangs: it is not waited for
                assert "store" in answer["degraded"]  # and "budget", where the machine is busy
                assert time.perf_counter() - began > 0.05
        finally:
            os.kill(own_redis.pid, signal.SIGCONT)
        wait_until(lambda: ask("POST", PATH, event(1)).json["degraded"] == [], 5, "Redis to be read again")


def test_an_answer_after_the_budget_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.models.inference.scorer import Scorer

    quick = Scorer.score_rows
    with predicting(fraud(tmp_path, budget="20ms")) as ask:
        assert ask("POST", PATH, event(1)).status == 200
        monkeypatch.setattr(Scorer, "score_rows", lambda *given: (time.sleep(0.03), quick(*given))[1])
        said = ask("POST", PATH, event(1))
    assert said.json["degraded"] == ["budget"]
    assert float(said.headers["server-timing"].rpartition("score;dur=")[2]) >= 30


def trained() -> hr.Model:
    given = {"on": payments, "features": [*VIEWS], "fields": ["amount"], "inputs": INPUTS}
    return hr.Model("fraud", train=lambda frame: frame, **given)


def add_version(state: Path, inputs: list[str]) -> str:
    """A version whose score is the sum of these inputs."""
    content = with_metadata(summing(len(inputs), DOUBLE), **{"headrace.inputs": str(inputs).replace("'", '"')})
    return VersionStore(state, "fraud").add(content, card_for(content)).version


def test_a_model_is_served_once_it_is_trained(tmp_path: Path) -> None:
    with predicting(trained(), scoring=ModelServingContext(tmp_path, PredictionLog())) as ask:
        assert ask("POST", PATH, event(1)).status == 503
        VersionStore(tmp_path, "fraud").promote(add_version(tmp_path, INPUTS))
        wait_until(lambda: ask("POST", PATH, event(1)).status == 200, 5, "the model to be found")
        assert ask("POST", PATH, event(1)).json["version"] == "1"
        assert ask("GET", "/v2/models/fraud/ready").status == 200


def test_the_version_before_scores_what_the_champion_fails_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    versions = VersionStore(tmp_path, "fraud")
    versions.promote(add_version(tmp_path, ["payments_1h"]))
    versions.promote(add_version(tmp_path, INPUTS))
    caplog.set_level(logging.ERROR, "headrace.serve")
    with predicting(trained(), scoring=ModelServingContext(tmp_path, PredictionLog())) as ask:
        assert ask("POST", PATH, event(1)).json["version"] == "2"
        for _ in range(3):
            answer = ask("POST", PATH, event(1, amount="Infinity")).json
            assert (answer["version"], answer["score"], answer["degraded"]) == ("1", 10.0, ["model"])
        assert ask("POST", PATH, event(1)).json["version"] == "2"
        listed = ask("POST", PATH, [event(1), event(1, amount="Infinity"), event(1)]).json
        assert [one["version"] for one in listed] == ["2", "1", "2"]
        assert [one["degraded"] for one in listed] == [[], ["model"], []]
        assert (listed[0]["score"], listed[1]["score"]) == (ask("POST", PATH, event(1)).json["score"], 10.0)
    assert [record.getMessage().split(";")[0] for record in caplog.records] == ["Model 'fraud' version 2 answers inf"]
