"""The counts that the join reports, from changes to /metrics."""

import orjson
import pyarrow as pa

from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.models import OutcomesProgress
from headrace.monitoring.outcomes import outcome_counts
from headrace.monitoring.outcomes.outcome_writer import COUNTS_KEY
from headrace.server.metrics.model_metrics import outcome_metrics

MINUTE = 1_767_225_600_000_000


def changes(*rows: tuple[str, str | None, str | None, int | None]) -> pa.Table:
    """Version, state before and after, and the label's delay."""
    return pa.Table.from_pylist(
        [
            {
                "version": version,
                "role": "champion" if version else "",
                "state_before": before,
                "state_after": after,
                "label_delay_us": delay_us,
                "minute_us": MINUTE,
            }
            for version, before, after, delay_us in rows
        ]
    )


def test_counts_and_first_delays_reach_metrics() -> None:
    tiles = dict(outcome_counts.fold_counts(changes(("v1", None, "pending", None), ("", None, "orphan", None)), {}))
    matched = changes(("v1", "pending", "matched", 5_000_000), ("", "orphan", None, None))
    tiles |= outcome_counts.fold_counts(matched, tiles)
    tiles |= outcome_counts.fold_counts(changes(("v1", "matched", "matched", 9_000_000)), tiles)
    known = outcome_counts.counts_from_tiles(tiles)
    assert tiles[COUNTS_KEY].n == 5
    assert known.to_rows() == [["v1", "champion", "matched", 1]]
    said = OutcomesProgress("fraud", 1, True, MINUTE, 3, known.to_rows(), known.label_delays.counts, 5.0, 7, 99)
    board = ProgressTable()
    board.apply([ConsumerRecord(PROGRESS_TOPIC, 0, 0, 0, said.key.encode(), orjson.dumps(said.to_json()), None)])
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in outcome_metrics(board.latest(OutcomesProgress))
        for sample in family.samples
    }
    assert samples["headrace_outcomes", "fraud", "v1", "champion", "matched"] == 1
    assert samples["headrace_label_delay_seconds_count", "fraud"] == 1, "a correction is no first label"
    assert samples["headrace_outcomes_state_rows", "fraud"] == 7
    assert samples["headrace_outcomes_lag", "fraud"] == 3
