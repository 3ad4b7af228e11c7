"""A failed query is restarted alone, after a back-off; the tests need no Spark."""

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from headrace.errors import HeadraceError
from headrace.kafka.workers.worker_health import RestartPolicy
from headrace.spark.execution.query_restarts import RestartingThread
from headrace.spark.stateful.start_lock import StartLock
from tests.waiting import wait_until

LIMIT_S = 60
QUICK = RestartPolicy(first_pause_s=0.01, max_pause_s=0.04)


class Attempts(RestartingThread):
    """Fails a given number of times, then works until it is stopped."""

    def __init__(self, failures: int, policy: RestartPolicy = QUICK, mends: bool = False, lost: bool = False) -> None:
        super().__init__("attempts", policy)
        self.left, self.begun, self.working = failures, 0, False
        self._mends, self._lost = mends, lost

    def _attempt(self) -> None:
        self.begun += 1
        if self.left:
            self.left -= 1
            raise HeadraceError(f"no. {self.begun}")
        self.working = True
        self._stopped.wait()
        self.working = False

    def _is_working(self) -> bool:
        return self.working

    def _recover(self, failure: Exception) -> Exception | None:
        return None if self._mends else failure

    def _can_restart(self) -> bool:
        return not self._lost


@pytest.fixture
def start() -> Iterator[Callable[[Attempts], Attempts]]:
    """Starts what is stopped in the end."""
    started: list[Attempts] = []

    def begin(attempts: Attempts) -> Attempts:
        started.append(attempts)
        attempts.start()
        return attempts

    yield begin
    for one in started:
        one.stop()
        one.join(LIMIT_S)
        assert not one.is_alive()


def test_what_fails_is_attempted_until_it_works(start: Callable[[Attempts], Attempts]) -> None:
    attempts = start(Attempts(failures=5))
    wait_until(lambda: attempts.working, LIMIT_S, "it to work")
    assert (attempts.begun, attempts.health.restarts, attempts.failure) == (6, 5, None)


def test_a_query_is_down_from_its_first_failure_until_it_is_seen_at_work(start: Callable[[Attempts], Attempts]) -> None:
    before_us = time.time_ns() // 1000
    attempts = start(Attempts(failures=3))
    wait_until(lambda: attempts.begun > 2, LIMIT_S, "it to fail")
    down_us = attempts.health.down_since_us
    assert down_us is not None
    assert before_us <= down_us <= time.time_ns() // 1000
    wait_until(lambda: attempts.check_health().down_since_us is None, LIMIT_S, "it to be up")
    assert attempts.working
    assert attempts.health.error == "no. 3"


def test_one_that_fails_for_ever_does_not_end_and_does_not_disturb_another(
    start: Callable[[Attempts], Attempts],
) -> None:
    hopeless, healthy = start(Attempts(failures=1_000_000)), start(Attempts(failures=0))
    wait_until(lambda: hopeless.health.restarts > 20, LIMIT_S, "twenty restarts")
    assert hopeless.is_alive()
    assert (healthy.begun, healthy.health.restarts, healthy.check_health().is_down) == (1, 0, False)


def test_what_is_mended_goes_on_at_once_and_counts_as_no_restart(start: Callable[[Attempts], Attempts]) -> None:
    patient = RestartPolicy(first_pause_s=3600, max_pause_s=3600)
    attempts = start(Attempts(failures=3, policy=patient, mends=True))
    wait_until(lambda: attempts.working, LIMIT_S, "it to work")
    assert (attempts.health.restarts, attempts.health.error) == (0, "")


def test_where_no_restart_can_help_the_failure_is_kept_and_the_thread_ends(
    start: Callable[[Attempts], Attempts],
) -> None:
    attempts = start(Attempts(failures=1, lost=True))
    attempts.join(LIMIT_S)
    assert str(attempts.failure) == "no. 1"
    assert attempts.begun == 1


def test_one_that_waits_to_restart_stops_at_once() -> None:
    attempts = Attempts(failures=1, policy=RestartPolicy(first_pause_s=3600, max_pause_s=3600))
    attempts.start()
    wait_until(lambda: attempts.health.is_down, LIMIT_S, "it to wait")
    attempts.stop()
    attempts.join(LIMIT_S)
    assert not attempts.is_alive()
    assert attempts.health.restarts == 0


def test_a_trace_is_logged_once_for_each_error(caplog: pytest.LogCaptureFixture) -> None:
    class Same(Attempts):
        def _attempt(self) -> None:
            self.begun += 1
            raise ValueError("always the same")

    with caplog.at_level(logging.ERROR, "headrace.stream"):
        same = Same(0)
        same.start()
        wait_until(lambda: same.begun > 3, LIMIT_S, "some failures")
        same.stop()
        same.join(LIMIT_S)
    assert len(caplog.records) >= 3
    assert [bool(one.exc_info) for one in caplog.records[:3]] == [True, False, False]
    assert caplog.records[0].getMessage() == "attempts failed and restarts in 0 s: ValueError: always the same"


def test_turns_come_one_after_another() -> None:
    turns, stopped, inside, most = StartLock(), threading.Event(), list[int](), list[int]()

    def begin(number: int) -> None:
        with turns.acquire_slot(stopped) as turn:
            assert turn is not None
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert most == [1] * 8


def test_one_that_waits_for_its_turn_can_be_stopped() -> None:
    turns, stopped, got = StartLock(), threading.Event(), list[object]()

    def wait() -> None:
        with turns.acquire_slot(stopped) as turn:
            got.append(turn)

    with turns.acquire_slot(threading.Event()):
        waiting = threading.Thread(target=wait)
        waiting.start()
        stopped.set()
        waiting.join(LIMIT_S)
    assert got == [None]


def test_a_turn_ends_where_a_first_batch_takes_long() -> None:
    with StartLock(max_seconds=0).acquire_slot(threading.Event()) as turn:
        assert turn is not None
        wait_until(lambda: turn.is_over, LIMIT_S, "the turn to be over")
