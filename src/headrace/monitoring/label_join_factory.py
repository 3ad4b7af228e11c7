"""Sets up the joins of an app's predictions with their labels."""

from functools import partial

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.declare.models.model import Model
from headrace.declare.names import query_name
from headrace.kafka.producer.producer import Producer
from headrace.lake.maintenance import MaintenanceConfig, MaintenanceThread
from headrace.monitoring.evaluation_manager import EvaluationSetup
from headrace.monitoring.evaluation_worker import EvaluationWorkerGroup
from headrace.monitoring.outcomes.batch_join import RECORDS_PER_BATCH, BatchLabelJoin
from headrace.monitoring.outcomes.join_inputs import LabelJoinInputs
from headrace.monitoring.outcomes.label_join import LabelJoin, OutcomeJoinConfig, outcomes_setup_failure_progress
from headrace.monitoring.outcomes.streaming_join import StreamingLabelJoin


def create_outcome_setups(spark: SparkSession, app: App, config: OutcomeJoinConfig) -> list[EvaluationSetup]:
    """The setup of the label join of each model that has labels."""
    return [
        EvaluationSetup(
            query_name(model.name, "outcomes"),
            partial(_create_join_workers, spark, model, config),
            partial(outcomes_setup_failure_progress, model),
        )
        for model in app.models
        if model.labels is not None
    ]


def _create_join_workers(spark: SparkSession, model: Model, config: OutcomeJoinConfig) -> EvaluationWorkerGroup:
    join = create_label_join(spark, LabelJoinInputs(model, config.lake.broker), config)
    maintenance = MaintenanceThread(
        join.outcome_writer.folders, MaintenanceConfig(config.lake.retention), Producer(config.lake.broker)
    )
    return EvaluationWorkerGroup([join], maintenance)


def create_label_join(spark: SparkSession, inputs: LabelJoinInputs, config: OutcomeJoinConfig) -> LabelJoin:
    """The label join of a model: in the stream, or through the lake if labels take too long for the stream."""
    if inputs.label_declaration.is_joined_in_lake:
        return BatchLabelJoin(spark, LabelJoinInputs(inputs.model, inputs.broker, RECORDS_PER_BATCH), config)
    return StreamingLabelJoin(spark, inputs, config)
