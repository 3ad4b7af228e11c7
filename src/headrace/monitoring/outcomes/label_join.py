"""The common part of label joins: checkpoints, restarts, and progress."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.declare.models.label_policy import label_policy_of
from headrace.declare.models.model import Model
from headrace.errors import HeadraceError
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import publish_progress
from headrace.kafka.status.reports.models import OutcomesProgress
from headrace.lake.failure_state import FailureState
from headrace.lake.ingestion.ingest_step import new_write_session
from headrace.lake.lake import LakeConfig
from headrace.monitoring.evaluation_worker import EvaluationWorker
from headrace.monitoring.outcomes import outcome_counts
from headrace.monitoring.outcomes.join_inputs import LabelJoinInputs
from headrace.monitoring.outcomes.outcome_clock import create_clock, prediction_delay_us
from headrace.monitoring.outcomes.outcome_writer import OutcomeFold, OutcomeWriter
from headrace.monitoring.quality.quality_outcome_fold import create_quality_fold
from headrace.spark.checkpoints.checkpoint_files import write_atomically
from headrace.spark.stateful.query_clock import EndOffsets

RETRY_SECONDS = 5.0
POLICY_FILE = "terms"


@dataclass(frozen=True)
class JoinIntervals:
    """The intervals of batches, in the stream and in the lake, and of clock updates."""

    stream_batch_seconds: float = 10.0
    clock_seconds: float = 30.0
    report_seconds: float = 2.0
    lake_batch_seconds: float = 60.0


@dataclass(frozen=True)
class OutcomeJoinConfig:
    """The lake and the folder of checkpoints."""

    lake: LakeConfig
    state: Path
    intervals: JoinIntervals = JoinIntervals()

    def checkpoint_folder(self, model: Model, kind: str) -> Path:
        return self.state.resolve() / "checkpoints" / f"{model.name}.{kind}"

    def gate_folder(self, stream: str) -> Path:
        return self.state.resolve() / "checkpoints" / stream / "gate"


def create_folds(model: Model) -> Sequence[OutcomeFold]:
    """The folds of a model's changes."""
    return (outcome_counts.fold_counts, create_quality_fold(model))


class LabelPolicyChangedError(HeadraceError):
    """The declaration of labels differs from the one that outcomes were counted by."""

    def __init__(self, model: Model, checkpoint: Path) -> None:
        super().__init__(
            f"{model.name}: what hr.Labels says has changed since its outcomes were counted, and what was counted by "
            f"other rules cannot be undone. Undo the change; or move the checkpoint at {str(checkpoint)!r}, "
            f"gold/{model.name}_outcomes and gold/{model.name}_quality away and delete the topic {model.quality}: "
            "all is counted again, as far as the log or the lake goes back."
        )


def outcomes_setup_failure_progress(model: Model, failure: FailureState) -> OutcomesProgress:
    """The progress report of a model whose set-up failed: since when, and why."""
    return OutcomesProgress(
        judged=model.name,
        at_us=time.time_ns() // 1000,
        running=False,
        clock_us=0,
        lag=0,
        counts=[],
        delays=outcome_counts.OutcomeCounts().label_delays.counts,
        delay_seconds=0.0,
        state_rows=0,
        state_bytes=0,
        down_since_us=failure.down_since_us,
        error=failure.error,
    )


class LabelJoin(EvaluationWorker):
    """The label join of one model; after a failure it restarts from its checkpoint."""

    def __init__(self, spark: SparkSession, inputs: LabelJoinInputs, config: OutcomeJoinConfig) -> None:
        super().__init__(f"{inputs.model.name}.outcomes", RETRY_SECONDS)
        self._spark, self._inputs, self._config = new_write_session(spark), inputs, config
        self._policy = label_policy_of(inputs.label_declaration)
        self._producer = Producer(inputs.broker)
        self._offset_client = OffsetClient(inputs.broker)
        self._clock = create_clock(
            inputs.model, inputs.label_stream, self._offset_client, config.gate_folder(inputs.label_stream.name)
        )
        self._clock_us, self._last_clock_check_s = 0, 0.0
        self.model, self.broker = inputs.model, inputs.broker
        self.outcome_writer = OutcomeWriter(
            config.lake.folder, inputs.model, create_folds(inputs.model), Producer(inputs.broker)
        )

    def _open_writer(self, checkpoint: Path) -> None:
        """Open the writer, if its state was made by the same rules."""
        policy_json, policy_file = json.dumps(asdict(self._policy)), checkpoint / POLICY_FILE
        if policy_file.exists() and policy_file.read_text() != policy_json:
            raise LabelPolicyChangedError(self.model, checkpoint)
        self.outcome_writer.open(checkpoint)
        write_atomically(policy_file, policy_json)

    def _complete_until_us(self, joined_offsets: EndOffsets) -> int | None:
        """The time up to which everything is known, updated periodically; None where it has not advanced."""
        if time.monotonic() < self._last_clock_check_s + self._config.intervals.clock_seconds:
            return None
        self._last_clock_check_s = time.monotonic()
        clock_us = self._clock.advance(joined_offsets)
        return None if clock_us is None else clock_us - prediction_delay_us(self._policy.within_us)

    def _report_progress(
        self, joined_offsets: EndOffsets, *, running: bool = True, state_rows: int = 0, state_bytes: int = 0
    ) -> None:
        counts = outcome_counts.counts_from_tiles(self.outcome_writer.tiles)
        progress = OutcomesProgress(
            judged=self._inputs.model.name,
            at_us=time.time_ns() // 1000,
            running=running,
            clock_us=self._clock_us,
            lag=self._lag(joined_offsets),
            counts=counts.to_rows(),
            delays=counts.label_delays.counts,
            delay_seconds=counts.label_delays.total_seconds,
            state_rows=state_rows,
            state_bytes=state_bytes,
            down_since_us=self._failure.down_since_us,
            error=self._failure.error,
        )
        publish_progress(self._producer, progress)

    def _report_failure(self) -> None:
        self._report_progress({}, running=False)

    def _lag(self, joined_offsets: EndOffsets) -> int:
        topics = (self._inputs.model.predictions, self._inputs.label_stream.clean)
        end_offsets, start_offsets = (
            self._offset_client.topic_end_offsets(topics),
            self._offset_client.topic_start_offsets(topics),
        )
        return sum(
            end_offset - max(joined_offsets.get(partition, 0), start_offsets[partition])
            for partition, end_offset in end_offsets.items()
        )
