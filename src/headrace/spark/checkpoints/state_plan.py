"""The plan of an app's queries on saved state; every incompatible change is rejected at once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.app import App
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.spark.stateful.operation_versions import OperationVersion, expand_rebuild_names, plan_operation_version
from headrace.spark.tiles.query_versions import IncompatibleChangeError, QueryVersionPlan, plan_query_versions


@dataclass(frozen=True)
class StatePlan:
    """The tiles queries of every stream, and the version of every operation."""

    query_versions: tuple[QueryVersionPlan, ...]
    operation_versions: tuple[OperationVersion, ...]

    def require_compatible(self) -> None:
        planned: tuple[OperationVersion | QueryVersionPlan, ...] = (*self.operation_versions, *self.query_versions)
        refused_plans = [plan for plan in planned if plan.refusals]
        if not refused_plans:
            return
        lines = [one.refusal_message for one in refused_plans]
        if len(refused_plans) > 1 and all(one.rebuild_names for one in refused_plans):
            names = dict.fromkeys(name for one in refused_plans for name in one.rebuild_names)
            lines.append(f"All of them at once: --rebuild {' --rebuild '.join(names)}")
        raise IncompatibleChangeError("\n".join(lines))


def plan_state(
    app: App,
    state_folder: Path,
    rebuild: Collection[str] = (),
    partitions: Mapping[str, int] | None = None,
    since_us: int | None = None,
) -> StatePlan:
    """The plan for this start; without `partitions` of topics it uses the declared ones. Nothing is written."""
    rebuilt_names, operations = (
        expand_rebuild_names(app, rebuild),
        [derivation for derivation in app.derivations if isinstance(derivation, StreamOperation)],
    )
    partition_counts = partitions or {stream.name: stream.partitions for stream in app.streams}
    plan = StatePlan(
        tuple(
            plan_query_versions(
                stream, app.views_of(stream), state_folder, partition_counts[stream.name], stream.name in rebuilt_names
            )
            for stream in app.streams
        ),
        tuple(
            plan_operation_version(operation, state_folder, operation.name in rebuilt_names, since_us)
            for operation in operations
        ),
    )
    plan.require_compatible()
    return plan
