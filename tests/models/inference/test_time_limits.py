"""A hanging model is stopped at its time limit, on a single input too; other models continue."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from onnx import helper

from headrace.models.inference.onnx_model import load_inference_session
from headrace.models.inference.scorer import Scorer, load_scorer
from headrace.models.inference.time_limits import TICK_S, ModelTimeoutError, TimeLimit
from tests.models.fraud import model
from tests.models.networks import FLOAT, INT64, hanging, network, offset
from tests.models.versions.test_live_versions import until

FRAUD = model(inputs=["payments_1h", "amount"])


@pytest.fixture(scope="module")
def hangs() -> Scorer:
    """It answers all that it is tried with, and hangs above 10."""
    return load_scorer(FRAUD, hanging(above=10), "Model 'fraud' version 7")


def test_a_run_that_hangs_is_ended_and_the_model_answers_again(hangs: Scorer) -> None:
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(ModelTimeoutError, match=r"Model 'fraud' version 7 has not answered within 0\.1 s"):
            hangs.score_rows([[11, 0.0]], timeout_s=0.1)
        assert time.monotonic() - began >= 0.1
        assert hangs.score_rows([[3, 0.5]], timeout_s=30).tolist() == [3.5]


def test_what_runs_beside_a_run_that_hangs_is_not_ended(hangs: Scorer) -> None:
    quick = load_scorer(FRAUD, offset(1), "Model 'fraud' version 8")

    def end(_: int) -> None:
        with pytest.raises(ModelTimeoutError):
            hangs.score_rows([[11, 0.0]], timeout_s=0.3)

    with ThreadPoolExecutor(3) as threads:
        ending = [threads.submit(end, number) for number in range(3)]
        while not all(one.done() for one in ending):
            assert quick.score_rows([[1, 1.0]], timeout_s=30).tolist() == [3.0]
            assert hangs.score_rows([[1, 1.0]], timeout_s=30).tolist() == [2.0]
        for one in ending:
            one.result()


def test_a_failure_in_time_is_what_it_was() -> None:
    scorer = load_scorer(FRAUD, offset(1), "Model 'fraud'")
    with pytest.raises(ValueError, match="Required inputs"):
        scorer._session.run(["score"], {})
    with pytest.raises(ValueError, match="cannot reshape"):
        scorer.score_rows([[1, 2, 3]], timeout_s=30)


def watchdogs() -> int:
    return sum(one.name == "headrace-limits" for one in threading.enumerate())


def test_one_thread_watches_all_and_goes_when_there_is_nothing_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.models.inference.time_limits.IDLE_TICKS", 3)
    until(lambda: watchdogs() == 0)
    ended = list[int]()
    with TimeLimit(0.05, lambda: ended.append(1)) as one, TimeLimit(60, lambda: ended.append(2)) as other:
        assert watchdogs() == 1
        until(lambda: one.is_expired)
        time.sleep(3 * TICK_S)
    assert (ended, other.is_expired) == ([1], False)
    until(lambda: watchdogs() == 0)


def test_a_watchdog_that_falls_asleep_misses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.models.inference.time_limits.IDLE_TICKS", 1)
    monkeypatch.setattr("headrace.models.inference.time_limits.TICK_S", 0.0005)

    def limits(seed: int) -> int:
        over = 0
        for number in range(100):
            with TimeLimit(0.001, lambda: None) as limit:
                until(lambda: limit.is_expired, within_s=60)
            over += limit.is_expired
            time.sleep(0.0003 * ((number + seed) % 5))
        return over

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(limits, range(4))) == [100] * 4


def test_a_forked_process_has_a_watchdog_of_its_own(hangs: Scorer) -> None:
    hangs.score_rows([[1, 1.0]], timeout_s=30)
    child = os.fork()
    if child == 0:
        over = False
        try:
            with TimeLimit(0.02, lambda: None) as limit:
                until(lambda: limit.is_expired, within_s=60)
            over = limit.is_expired
        finally:
            os._exit(0 if over else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_load_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.models.inference.onnx_model.LOAD_TIMEOUT_S", 0.05)
    with pytest.raises(ModelTimeoutError, match=r"is not loaded after 0\.05 s"):
        load_inference_session(costly(), "Model 'fraud'")


def costly() -> bytes:
    """Constants that are multiplied when a model is loaded, for some seconds."""
    size = 600
    ones = helper.make_tensor("one", FLOAT, [1], [0.001])
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["p0"], value=ones)]
    nodes += [helper.make_node("MatMul", [f"p{turn}", "p0"], [f"p{turn + 1}"]) for turn in range(100)]
    nodes += [
        helper.make_node("ReduceMean", ["p100"], ["mean"], keepdims=0),
        helper.make_node("Add", ["features", "mean"], ["score"]),
    ]
    shape = helper.make_tensor("shape", INT64, [2], [size, size])
    return network(nodes, [("features", FLOAT, [None, 2])], [("score", FLOAT, [None, 2])], [shape])
