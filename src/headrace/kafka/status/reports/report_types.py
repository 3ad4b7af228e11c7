"""All kinds of status reports, with the class of each."""

from collections.abc import Mapping

from headrace.kafka.status.reports.alerting import AlertingProgress
from headrace.kafka.status.reports.connectors import CaptureProgress, OutboxProgress, SinkProgress, SourceProgress
from headrace.kafka.status.reports.lake import ConsistencyCheckProgress, IngestionProgress, MaintenanceProgress
from headrace.kafka.status.reports.models import DriftProgress, OutcomesProgress, QualityProgress, ScorerProgress
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.reports.progress_report import ProgressReport
from headrace.kafka.status.reports.queries import QueryProgress

REPORT_TYPES: Mapping[str, type[ProgressReport]] = {
    report_type.kind: report_type
    for report_type in (
        QueryProgress,
        ConsistencyCheckProgress,
        IngestionProgress,
        MaintenanceProgress,
        PartProgress,
        ScorerProgress,
        SinkProgress,
        OutboxProgress,
        SourceProgress,
        CaptureProgress,
        AlertingProgress,
        OutcomesProgress,
        DriftProgress,
        QualityProgress,
    )
}
