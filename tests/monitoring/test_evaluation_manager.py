"""An evaluation that cannot be created or started is reported and retried; the others and the lake continue."""

import threading
from types import ModuleType

import orjson

import headrace as hr
from headrace.declare.app import App, build_app
from headrace.kafka.status.app_status import build_app_status
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.progress_report import ProgressReport
from headrace.lake.failure_state import FailureState
from headrace.lake.maintenance import MaintenanceConfig, MaintenanceThread
from headrace.monitoring.drift.drift_worker import drift_setup_failure_progress
from headrace.monitoring.evaluation_manager import EvaluationManager, EvaluationSetup
from headrace.monitoring.evaluation_worker import EvaluationWorker, EvaluationWorkerGroup
from headrace.monitoring.outcomes.label_join import outcomes_setup_failure_progress
from tests.kafka.status.test_progress_table import record
from tests.runtime.parts.test_app_parts import CardSpend, payments
from tests.waiting import wait_until

LIMIT_S = 30.0
labels = hr.Stream("labels", schema="id string, is_fraud boolean, at timestamp", id="id", key="id", time="at")


def judged_app() -> App:
    module = ModuleType("shop")
    told = hr.Labels(labels, value="is_fraud", within="1h")
    fraud = hr.Model("fraud", on=payments, features=[CardSpend], train=lambda frame: frame, labels=told)
    vars(module).update(fraud=fraud)
    return build_app(module)


class Works(EvaluationWorker):
    """Begins at once and works until it is stopped."""

    def __init__(self) -> None:
        super().__init__("works", 0.01)
        self.runs = threading.Event()

    def _run(self) -> None:
        self.has_warmed_up = True
        self.runs.set()
        self._stopped.wait()

    def _report_failure(self) -> None:
        raise NotImplementedError


def test_an_evaluation_that_cannot_be_made_is_told_and_tried_again_while_the_others_run() -> None:
    works, late, tries, told = Works(), Works(), list[int](), list[ProgressReport]()
    (fraud,) = judged_app().models

    def make_late() -> EvaluationWorkerGroup:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("a card that cannot be read")
        return EvaluationWorkerGroup([late], MaintenanceThread([], MaintenanceConfig()))

    def outcomes(failure: FailureState) -> ProgressReport:
        return outcomes_setup_failure_progress(fraud, failure)

    setups = [
        EvaluationSetup("fraud.outcomes", make_late, outcomes, FailureState(0.1, 0.2)),
        EvaluationSetup(
            "other.outcomes",
            lambda: EvaluationWorkerGroup([works], MaintenanceThread([], MaintenanceConfig())),
            outcomes,
        ),
    ]
    evaluations = EvaluationManager(setups, told.append)
    evaluations.start()
    try:
        wait_until(works.runs.is_set, LIMIT_S, "the other one")
        wait_until(lambda: evaluations.has_warmed_up, LIMIT_S, "both of them")
        assert len(tries) == 3
        assert [one.key for one in told] == ["outcomes fraud"] * 2
    finally:
        evaluations.stop()
        evaluations.join(LIMIT_S)
    assert not works.is_alive()
    assert not late.is_alive()


def test_what_could_not_be_set_up_is_an_outage_with_its_reason() -> None:
    app, board, failure = judged_app(), ProgressTable(), FailureState()
    (fraud,) = app.models
    failure.record_failure(OSError("No space left on device"))
    for progress in (outcomes_setup_failure_progress(fraud, failure), drift_setup_failure_progress(fraud, failure)):
        board.apply([record(orjson.dumps(progress.to_json()))])
    assert {(one.kind, one.name, one.reason) for one in build_app_status(app, board).outages} >= {
        ("outcomes", "fraud", failure.error),
        ("drift", "fraud", failure.error),
    }
    assert "No space left on device" in failure.error
