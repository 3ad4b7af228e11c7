"""A worker that fails is restarted alone; steps that need the broker are retried until it is available."""

import threading

import pytest

from headrace.errors import HeadraceError
from headrace.kafka.client import startup_retries
from headrace.kafka.client.startup_retries import retry_until_stopped
from headrace.kafka.workers.restarting_worker import RestartingWorker, WorkerProgress
from headrace.kafka.workers.worker_health import RestartPolicy
from tests.waiting import wait_until

LIMIT_S = 30.0
QUICK = RestartPolicy(first_pause_s=0.01, max_pause_s=0.05, steady_after_s=60.0, clear_error_after_s=0.05)


class Breaks:
    """A worker that fails on request, or at once."""

    def __init__(self, number: int, failure: Exception | None = None) -> None:
        self.number, self.stopped = number, False
        self.failure: BaseException | None = failure

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped = True

    def progress(self) -> WorkerProgress | None:
        return None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup_retries, "RETRY_SECONDS", 0.01)


def look_until(kept: RestartingWorker[Breaks], number: int) -> None:
    def is_there() -> bool:
        kept.check()
        return kept.worker.number == number

    wait_until(is_there, LIMIT_S, f"worker {number}")


def test_a_worker_that_fails_is_made_anew_and_its_error_is_told_until_it_has_settled() -> None:
    kept = RestartingWorker("Sink copies", Breaks, QUICK)
    kept.start()
    first = kept.worker
    kept.check()
    assert kept.error == ""
    first.failure = HeadraceError("The topic is gone.\nmore")
    kept.check()
    assert kept.error == "The topic is gone."
    look_until(kept, 1)
    assert first.stopped
    assert kept.error == "The topic is gone."

    def is_settled() -> bool:
        kept.check()
        return kept.error == ""

    wait_until(is_settled, LIMIT_S, "it to settle")


def test_a_worker_that_keeps_failing_is_made_anew_for_ever() -> None:
    kept = RestartingWorker("Sink copies", lambda number: Breaks(number, ValueError(f"failure {number}")), QUICK)
    kept.start()
    look_until(kept, 12)


def test_a_worker_that_cannot_be_made_is_tried_again() -> None:
    made: list[int] = []

    def make(number: int) -> Breaks:
        made.append(number)
        if len(made) in (2, 3):
            raise OSError("no such driver")
        return Breaks(number)

    kept = RestartingWorker("Sink copies", make, QUICK)
    kept.start()
    kept.worker.failure = HeadraceError("gone")
    look_until(kept, 1)
    assert made == [0, 1, 1, 1]


def test_a_step_is_tried_until_it_succeeds() -> None:
    tries: list[int] = []

    def step() -> str:
        tries.append(1)
        if len(tries) < 4:
            raise HeadraceError("No broker answers.")
        return "there"

    assert retry_until_stopped(step, threading.Event(), "Alerts") == "there"
    assert len(tries) == 4


def test_a_step_that_is_to_stop_is_tried_no_more() -> None:
    stop = threading.Event()

    def step() -> str:
        stop.set()
        raise HeadraceError("No broker answers.")

    assert retry_until_stopped(step, stop, "Alerts") is None
