"""Lake and evaluation run at lower priority once started; a lake that falls far behind ends and is restarted."""

import os
import threading

import pytest

from headrace.lake.maintenance import MaintenanceConfig, MaintenanceThread
from headrace.monitoring.evaluation_worker import EvaluationWorker, EvaluationWorkerGroup
from headrace.runtime.parts import evaluate_part, lake_part
from headrace.runtime.parts.evaluate_part import EvaluationPriorityController
from headrace.runtime.parts.lake_part import LakePriorityController


def test_who_gives_way_and_falls_behind_ends_to_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    polite: list[tuple[int, ...]] = []
    monkeypatch.setattr(lake_part, "lower_priority", lambda *pids: polite.append(pids))
    stop = threading.Event()
    politeness = LakePriorityController(stop)
    politeness.on_fell_behind(200_000)
    assert not stop.is_set()  # a backlog that is being landed is no reason to end
    politeness.spark_pid = 4711
    politeness.on_caught_up()
    politeness.on_caught_up()
    assert polite == [(os.getpid(), 4711)]
    assert not stop.is_set()
    politeness.on_fell_behind(200_000)
    assert stop.is_set()


def test_evaluation_waits_for_the_first_look_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    polite: list[tuple[int, ...]] = []
    monkeypatch.setattr(evaluate_part, "lower_priority", lambda *pids: polite.append(pids))
    look = Look()
    politeness = EvaluationPriorityController(
        EvaluationWorkerGroup([look], MaintenanceThread([], MaintenanceConfig(None))), 4711
    )
    politeness.update()
    assert not polite
    look.has_warmed_up = True
    politeness.update()
    politeness.update()
    assert polite == [(os.getpid(), 4711)]


def test_what_never_begins_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    polite: list[tuple[int, ...]] = []
    monkeypatch.setattr(evaluate_part, "lower_priority", lambda *pids: polite.append(pids))
    monkeypatch.setattr(evaluate_part, "START_TIMEOUT_SECONDS", 0.0)
    politeness = EvaluationPriorityController(
        EvaluationWorkerGroup([Look()], MaintenanceThread([], MaintenanceConfig(None))), None
    )
    politeness.update()
    assert polite == [(os.getpid(),)]


class Look(EvaluationWorker):
    def __init__(self) -> None:
        super().__init__("look", 0.0)

    def _run(self) -> None:
        raise NotImplementedError

    def _report_failure(self) -> None:
        raise NotImplementedError
