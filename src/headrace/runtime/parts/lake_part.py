"""`headrace run APP lake`: the part that writes streams and predictions to the lake's tables."""

import logging
import os
import threading

from headrace.declare.app import App
from headrace.embedded_servers.process_priority import lower_priority
from headrace.lake.ingestion.table_mapping import TableMapping, table_mappings
from headrace.lake.lake import LakeConfig
from headrace.runtime.part_runner import broker_address
from headrace.runtime.settings import Settings
from headrace.spark.stateful.operation_versions import first_offsets

LOGGER = logging.getLogger("headrace.lake")


def build_lake(app: App, settings: Settings) -> LakeConfig | None:
    """The lake's configuration, or None with --lake off."""
    if settings.lake is None:
        return None
    return LakeConfig(
        settings.lake,
        broker_address(settings),
        table_mappings(app),
        settings.lake_every_s,
        settings.lake_retention,
        settings.lake_format,
        first_offsets(settings.state),
    )


def missing_outcome_warnings(app: App, settings: Settings) -> list[str]:
    """A warning for each model whose labels are not joined because there is no lake."""
    unjoined_models = [] if settings.lake is not None else [model for model in app.models if model.labels is not None]
    return [
        f"{model.name} has labels, and with --lake off nothing joins them: no outcomes, no quality, no retraining"
        for model in unjoined_models
    ]


def lake_tables(app: App) -> list[TableMapping]:
    """Every table of an app's lake, including those of outcomes and drift."""
    from headrace.monitoring.drift.drift_worker import compared_models
    from headrace.monitoring.drift.drift_writer import drift_table
    from headrace.monitoring.outcomes.outcome_writer import outcomes_table, quality_table

    model_tables = [table(model) for model in app.models if model.labels for table in (outcomes_table, quality_table)]
    return [*table_mappings(app), *model_tables, *map(drift_table, compared_models(app))]


class LakePriorityController:
    """Lowers the priority of the lake once it has caught up, for as long as it keeps up.

    A process cannot raise its own priority again. One that falls far behind exits, and its supervisor restarts it at
    the usual priority: it ingests the backlog, and lowers its priority after that.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.spark_pid: int | None = None
        self._stop, self._has_lowered_priority = stop, False

    def on_caught_up(self) -> None:
        if not self._has_lowered_priority:
            self._has_lowered_priority = True
            lower_priority(os.getpid(), *([] if self.spark_pid is None else [self.spark_pid]))

    def on_fell_behind(self, waiting_records: int) -> None:
        if self._has_lowered_priority:
            LOGGER.warning("The lake runs at low priority and is %s records behind: restarting it", waiting_records)
            self._stop.set()
