"""`headrace run APP evaluate`: joins labels with predictions, and computes quality and drift.

topics ──▶ labels that come within a day ─┐
lake   ──▶ labels that take longer        ├──▶ gold/MODEL_outcomes, gold/MODEL_quality, gold/MODEL_drift
topics ──▶ drift, which needs no Spark   ─┘
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.declare.app import App
from headrace.embedded_servers.process_priority import lower_priority
from headrace.kafka.client.startup_retries import retry_until_stopped
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.lake.formats.registry import create_lake
from headrace.lake.lake import LakeConfig
from headrace.monitoring.evaluation_manager import EvaluationManager
from headrace.runtime.batch_session import batch_session
from headrace.runtime.settings import Settings
from headrace.spark.session.liveness import require_alive
from headrace.spark.session.session import java_process_id

if TYPE_CHECKING:
    from headrace.monitoring.evaluation_manager import EvaluationSetup
    from headrace.monitoring.evaluation_worker import EvaluationWorkerGroup

DRIVER_MEMORY = "768m"  # 512m is enough for a batch of 200,000 labels; the state of a join is in RocksDB, off-heap
POLL_SECONDS = 1.0
STOP_SECONDS = 10.0
START_TIMEOUT_SECONDS = 180.0  # without a first success, which may wait for events


def evaluate_until(app: App, lake: LakeConfig, settings: Settings, stop: threading.Event) -> None:
    """Evaluate an app's models until `stop` is set; raises if Spark is gone: the supervisor restarts it."""
    if not retry_until_stopped(partial(_prepare, lake), stop, "Evaluation"):
        return
    with _label_session(app, settings) as spark:
        setups = evaluation_setups(spark, app, lake, settings)
        evaluations = EvaluationManager(setups, partial(publish_progress, Producer(lake.broker)))
        priority = EvaluationPriorityController(evaluations, None if spark is None else java_process_id(spark))
        evaluations.start()
        while not stop.wait(POLL_SECONDS):
            if spark is not None:
                require_alive(spark)
            priority.update()
        evaluations.stop()
        evaluations.join(timeout=STOP_SECONDS)


def _prepare(lake: LakeConfig) -> bool:
    """Require the broker before Spark starts; fix the format of a new lake, since its own part may start later."""
    ensure_progress_topic(lake.broker)
    create_lake(lake.folder, lake.format)
    return True


@contextmanager
def _label_session(app: App, settings: Settings) -> Iterator[Any]:
    """Spark for the joins of labels; None if there are none, since drift needs no Spark."""
    if not any(model.labels is not None for model in app.models):
        yield None
        return
    with batch_session(settings.spark, DRIVER_MEMORY, is_streaming=True) as spark:
        yield spark


def evaluation_setups(spark: Any, app: App, lake: LakeConfig, settings: Settings) -> "list[EvaluationSetup]":
    """The label join of each model with labels, and the drift monitor of each trained model."""
    from headrace.monitoring.drift import drift_worker
    from headrace.monitoring.label_join_factory import create_outcome_setups
    from headrace.monitoring.outcomes import label_join

    return [
        *create_outcome_setups(spark, app, label_join.OutcomeJoinConfig(lake, settings.state)),
        *drift_worker.create_drift_setups(app, drift_worker.DriftEvaluationConfig(lake, settings.state)),
    ]


class EvaluationPriorityController:
    """Lowers the priority of evaluation once the first batch of each, which costs far more than later ones, is done.

    A process cannot raise it again, and a first batch at low priority may take minutes on a busy machine.
    """

    def __init__(self, evaluations: "EvaluationManager | EvaluationWorkerGroup", spark_pid: int | None) -> None:
        self._evaluations, self._spark_pid = evaluations, spark_pid
        self._has_lowered_priority, self._deadline = False, time.monotonic() + START_TIMEOUT_SECONDS

    def update(self) -> None:
        """Lower the priority if all have warmed up, or one takes too long."""
        if not self._has_lowered_priority and (self._evaluations.has_warmed_up or time.monotonic() > self._deadline):
            self._has_lowered_priority = True
            lower_priority(os.getpid(), *([] if self._spark_pid is None else [self._spark_pid]))
