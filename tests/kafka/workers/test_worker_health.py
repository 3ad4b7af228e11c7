"""The back-off of a failed worker, and the health that is reported meanwhile."""

from headrace.kafka.workers.worker_health import Backoff, RestartPolicy, WorkerHealth

SECOND_US = 1_000_000


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_steady_run() -> None:
    backoff = Backoff(RestartPolicy(first_pause_s=1, max_pause_s=60, steady_after_s=120))
    assert [backoff.next_pause_s(ran_s=3) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [backoff.next_pause_s(ran_s=120), backoff.next_pause_s(ran_s=1)] == [1, 2]


def test_an_error_is_told_until_a_query_has_run_steadily() -> None:
    health = WorkerHealth(clear_error_after_s=120)
    health.record_failure("no broker", now_us=SECOND_US)
    health.record_working(2 * SECOND_US)
    assert health.is_down, "it waits to restart: what was seen was the end of the attempt before"
    health.record_restart()
    health.record_failure("no broker still", now_us=3 * SECOND_US)
    assert health.down_since_us == SECOND_US
    health.record_restart()
    health.record_working(10 * SECOND_US)
    assert (health.down_since_us, health.error, health.restarts) == (None, "no broker still", 2)
    health.record_working(100 * SECOND_US)
    assert health.error == "no broker still"
    health.record_working(130 * SECOND_US)
    assert health.error == ""


def test_pauses_may_be_any_part_of_their_length_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(RestartPolicy(first_pause_s=1, max_pause_s=4, shortest_share=0.5))
    pauses = [backoff.next_pause_s(ran_s=0) for _ in range(4)]
    assert all(longest / 2 <= pause <= longest for pause, longest in zip(pauses, [1, 2, 4, 4], strict=True))
    backoff.reset()
    assert backoff.next_pause_s(ran_s=0) <= 1
