"""What runs of an app on the state that an earlier run kept; all that this state cannot follow is refused at once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.app import App
from headrace.declare.derivation import Operation
from headrace.stream.generations import ChangedDefinition, Generations, plan_generations
from headrace.stream.operations import KeptRun, plan_run, rebuilt


@dataclass(frozen=True)
class StatePlan:
    """The tiles queries of every stream, and the run of every operation."""

    generations: tuple[Generations, ...]
    runs: tuple[KeptRun, ...]

    def require_possible(self) -> None:
        planned: tuple[KeptRun | Generations, ...] = (*self.runs, *self.generations)
        refused = [one for one in planned if one.refused]
        if not refused:
            return
        lines = [one.refusal for one in refused]
        if len(refused) > 1 and all(one.rebuilds for one in refused):
            names = dict.fromkeys(name for one in refused for name in one.rebuilds)
            lines.append(f"All of them at once: --rebuild {' --rebuild '.join(names)}")
        raise ChangedDefinition("\n".join(lines))


def plan_on_state(
    app: App,
    state: Path,
    rebuild: Collection[str] = (),
    partitions: Mapping[str, int] | None = None,
    since_us: int | None = None,
) -> StatePlan:
    """What runs from now on; without `partitions` of topics, those that are declared. Nothing is written."""
    again, operations = rebuilt(app, rebuild), [one for one in app.derivations if isinstance(one, Operation)]
    sizes = partitions or {stream.name: stream.partitions for stream in app.streams}
    plan = StatePlan(
        tuple(
            plan_generations(stream, app.views_of(stream), state, sizes[stream.name], stream.name in again)
            for stream in app.streams
        ),
        tuple(plan_run(operation, state, operation.name in again, since_us) for operation in operations),
    )
    plan.require_possible()
    return plan
