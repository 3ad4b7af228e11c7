"""Lands the topics of an app beside its real-time queries, in the same Spark session, every few seconds."""

import logging
import threading
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from headrace.lake.care import Care, Caretaker
from headrace.lake.delta import LakeTable
from headrace.lake.lake import Lake
from headrace.lake.land import Lander, Step, writing_session
from headrace.log.produce import Producer
from headrace.log.progress import LandingProgress, report_landing

LOGGER = logging.getLogger("headrace.lake")
RECORDS_A_STEP = 200_000  # bounds the memory and the time of a step; a backlog takes several, without a pause between


class LakeWriter(threading.Thread):
    """Lands topics until stopped. A step that fails is tried again: the real-time queries do not wait for it."""

    def __init__(self, spark: SparkSession, lake: Lake, tables: Sequence[LakeTable]) -> None:
        super().__init__(name="lake", daemon=True)
        session = writing_session(spark)
        self._landers = [Lander(session, lake.broker, table, RECORDS_A_STEP) for table in tables]
        self._caretaker = Caretaker([table.folder for table in tables], Care(lake.retention))
        self._every_s, self._producer = lake.every_s, Producer(lake.broker)
        self._stopped = threading.Event()

    def run(self) -> None:
        self._caretaker.start()
        pause_s = self._every_s
        while not self._stopped.wait(pause_s):
            began = time.monotonic()
            left = sum(self._land(lander) for lander in self._landers)
            pause_s = 0 if left else max(0.0, began + self._every_s - time.monotonic())

    def _land(self, lander: Lander) -> int:
        """Take a step; how many records it has left."""
        if self._stopped.is_set():
            return 0
        began = time.monotonic()
        try:
            step = lander.land()
        except Exception as failure:  # noqa: BLE001  # a broker that restarts, a full disk: nothing is lost by waiting
            if not self._stopped.is_set():
                LOGGER.error("%s has not landed, and is tried again: %s", lander.table.landing.topic, failure)
            return 0
        self._report(lander, step, time.monotonic() - began)
        return step.left

    def _report(self, lander: Lander, step: Step, seconds: float) -> None:
        table = lander.table.landing.table
        report_landing(self._producer, LandingProgress(table, time.time_ns() // 1000, step.taken, step.left, seconds))

    def stop(self) -> None:
        self._stopped.set()
        self._caretaker.stop()
