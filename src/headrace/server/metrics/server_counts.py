"""The counts of a server as plain numbers, so that several worker processes report as one."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.declare.metric_catalog import APPLY_SECONDS_BUCKETS
from headrace.online_store.delay_histogram import DelayHistogram
from headrace.online_store.memory.memory_store import ViewTable
from headrace.server.metrics.request_stats import PredictionStats, RequestStats


@dataclass
class TableCounts:
    """Counts of a view's table: records that were not tiles, and the delay until tiles were applied."""

    rejected_records: int = 0
    apply_delays: DelayHistogram = field(default_factory=lambda: DelayHistogram(APPLY_SECONDS_BUCKETS))


@dataclass
class ServerCounts:
    """The counts of one process, or of several: requests by path, predictions by model, tables by view."""

    requests: dict[str, RequestStats] = field(default_factory=dict)
    predictions: dict[str, PredictionStats] = field(default_factory=dict)
    lost_predictions: Counter[str] = field(default_factory=Counter)
    tables: dict[str, TableCounts] = field(default_factory=dict)

    @classmethod
    def merge(cls, all_counts: Iterable[Self]) -> Self:
        """Merge the counts of several processes.

        Each of them reads the same changelogs, so they all count the same invalid records.
        """
        total = cls()
        for counts in all_counts:
            for path, request_stats in counts.requests.items():
                total.requests.setdefault(path, RequestStats()).merge(request_stats)
            for model, prediction_stats in counts.predictions.items():
                total.predictions.setdefault(model, PredictionStats()).merge(prediction_stats)
            total.lost_predictions.update(counts.lost_predictions)
            for view, table in counts.tables.items():
                total_table = total.tables.setdefault(view, TableCounts())
                total_table.rejected_records = max(total_table.rejected_records, table.rejected_records)
                total_table.apply_delays.merge(table.apply_delays.counts, table.apply_delays.total_seconds)
        return total

    def to_json(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            "requests": [
                [
                    path,
                    list(request_stats.statuses.items()),
                    request_stats.delays.counts,
                    request_stats.delays.total_seconds,
                ]
                for path, request_stats in self.requests.items()
            ],
            "predictions": [[model, stats.scored, stats.degraded] for model, stats in self.predictions.items()],
            "lost": self.lost_predictions,
            "tables": [
                [view, one.rejected_records, one.apply_delays.counts, one.apply_delays.total_seconds]
                for view, one in self.tables.items()
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Parse counts from JSON."""
        server_counts = cls(lost_predictions=Counter(content["lost"]))
        for path, statuses, bucket_counts, seconds in content["requests"]:
            request_stats = server_counts.requests[path] = RequestStats()
            request_stats.statuses.update(dict(statuses))
            request_stats.delays.merge(bucket_counts, seconds)
        for model, scored, degraded in content["predictions"]:
            prediction_stats = server_counts.predictions[model] = PredictionStats()
            prediction_stats.scored, prediction_stats.degraded = scored, Counter(degraded)
        for view, rejected_records, bucket_counts, seconds in content["tables"]:
            table = server_counts.tables[view] = TableCounts(rejected_records)
            table.apply_delays.merge(bucket_counts, seconds)
        return server_counts


def table_counts(table: ViewTable) -> TableCounts:
    """The counts of a table of this process."""
    return TableCounts(table.rejected_count, table.delays)
