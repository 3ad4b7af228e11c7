"""The workers of a part are started, reported each second, restarted alone and stopped, whatever their task."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.kafka.status.reports.connectors import SourceProgress
from headrace.kafka.workers import worker_group
from headrace.kafka.workers.restarting_worker import RestartingWorker
from headrace.kafka.workers.worker_group import WorkerGroup
from headrace.kafka.workers.worker_health import RestartPolicy
from headrace.kafka.workers.worker_thread import WorkerThread
from tests.waiting import wait_until

LIMIT_S = 30.0
PATIENT = RestartPolicy(first_pause_s=0.01, max_pause_s=0.05, steady_after_s=60.0, clear_error_after_s=3600.0)


class Copies(WorkerThread):
    """Copies until the test stops it or makes it fail."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name)
        self.number, self.broken, self.closed = number, threading.Event(), False

    def _work(self) -> None:
        while not self.stop_event.is_set():
            if self.broken.wait(0.01):
                raise HeadraceError("The topic is gone.")

    def _close(self) -> None:
        self.closed = True

    def progress(self) -> SourceProgress:
        return SourceProgress(self.name, 0, self.number, 0, "")


class Reports:
    """Stands where the broker is; away at first."""

    def __init__(self) -> None:
        self.tries = 0
        self.sent: list[SourceProgress] = []

    def ensure_topic(self, _broker: str) -> None:
        self.tries += 1
        if self.tries < 3:
            raise HeadraceError("No broker answers.")

    def publish(self, _producer: Any, progress: SourceProgress) -> None:
        self.sent.append(progress)

    def last(self, name: str) -> SourceProgress | None:
        return next((one for one in reversed(self.sent) if one.bridged == name), None)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    reports = Reports()
    monkeypatch.setattr(worker_group, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(worker_group, "ensure_progress_topic", reports.ensure_topic)
    monkeypatch.setattr(worker_group, "publish_progress", reports.publish)
    monkeypatch.setattr(worker_group, "Producer", lambda _broker: None)
    return reports


@pytest.fixture
def workers() -> list[RestartingWorker[Copies]]:
    return [
        RestartingWorker(name, lambda number, name=name: Copies(name, number), PATIENT)  # type: ignore[misc]
        for name in ("taps", "cards")
    ]


@pytest.fixture
def running(reports: Reports, workers: list[RestartingWorker[Copies]]) -> Iterator[threading.Thread]:
    stop = threading.Event()
    thread = threading.Thread(target=WorkerGroup("Reporting copies", workers, "nowhere").run, args=(stop,))
    thread.start()
    yield thread
    stop.set()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert all(worker.worker.closed for worker in workers)


@pytest.mark.usefixtures("running")
def test_workers_are_reported_once_the_broker_is_there(reports: Reports) -> None:
    wait_until(lambda: reports.last("taps") and reports.last("cards"), LIMIT_S, "both reports")
    assert reports.tries == 3


@pytest.mark.usefixtures("running")
def test_one_that_fails_is_restarted_alone_and_reported_with_its_failure(
    reports: Reports, workers: list[RestartingWorker[Copies]]
) -> None:
    taps, cards = workers[0].worker, workers[1].worker
    taps.broken.set()
    wait_until(lambda: (one := reports.last("taps")) and one.copied == 1, LIMIT_S, "another worker")
    assert taps.closed
    assert reports.last("taps") == SourceProgress("taps", 0, 1, 0, "The topic is gone.")
    wait_until(lambda: reports.last("cards"), LIMIT_S, "the report of the other")
    assert workers[1].worker is cards
    assert reports.last("cards") == SourceProgress("cards", 0, 0, 0, "")


def test_what_no_restart_can_help_ends_the_group_and_stops_all(
    reports: Reports, workers: list[RestartingWorker[Copies]]
) -> None:
    def fail() -> None:
        raise HeadraceError("Spark is gone.")

    with pytest.raises(HeadraceError, match="Spark is gone"):
        WorkerGroup("Reporting copies", workers, "nowhere", before_check=fail).run(threading.Event())
    assert all(worker.worker.closed for worker in workers)
