"""Whether Spark has the task slots that an app's queries hold at once.

real-time query   ├─ a task for each partition it reads and shuffles to ─▶  holds its slots for as long as it runs
job of a batch    ├─ any number of tasks ─┤                                 takes turns in the slots that are free

While a query reads a table to broadcast it, drains a backlog or searches for poison records, its own slots are free:
so slots for all real-time tasks are enough for everything, however many partitions a table has.
"""

import time

from pyspark.sql import SparkSession

from headrace.errors import HeadraceError

WAIT_SECONDS = 60.0  # for the executors of a cluster to register
POLL_SECONDS = 0.2


class TooFewSlots(HeadraceError):
    """Spark has fewer task slots than the queries of an app hold at once."""

    def __init__(self, needed: int, available: int, master: str) -> None:
        super().__init__(
            f"The queries of this app hold {needed} task slots at once, one for each partition they read and shuffle "
            f"to, and Spark at {master} has {available}. Give it {needed} cores, declare fewer partitions=, "
            "or leave --spark out."
        )


def require_task_slots(spark: SparkSession, needed: int, wait_seconds: float = WAIT_SECONDS) -> None:
    """Wait until Spark has enough task slots; raises instead of starting queries that would wait for ever."""
    context = spark.sparkContext
    master = str(context.master)
    deadline = time.monotonic() + wait_seconds
    while context.defaultParallelism < needed:
        if master.startswith("local") or time.monotonic() > deadline:
            raise TooFewSlots(needed, context.defaultParallelism, master)
        time.sleep(POLL_SECONDS)
