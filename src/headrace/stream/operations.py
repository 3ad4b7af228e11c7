"""Which run of an operation keeps what, and what a changed declaration does to it.

first up: spend → run 1 begins with the earliest clean record
a changed operation → refused, with its line; `--rebuild spend` begins run 2 there, or at the time of `--since`
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.declare.app import App
from headrace.declare.derivation import Derived, Operation
from headrace.declare.recounted import Recount
from headrace.log.records import Partition
from headrace.log.topics import fates_of
from headrace.log.trim import empty
from headrace.stream.checkpoints import write_whole
from headrace.stream.generations import has_run
from headrace.stream.operation_changes import describe_changes, kind_of
from headrace.stream.operation_terms import Terms, follow_layout, terms_of

FOLDER = "operations"


@dataclass(frozen=True)
class KeptRun:
    """A run of an operation: its number, the terms it was begun with, and since when it reads, if not from the first.

    `changes` and `refused` say what is new in it, and what its state cannot follow.
    """

    operation: Operation
    number: int
    terms: Terms
    since_us: int | None = None
    changes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def refusal(self) -> str:
        """Why it cannot run, and what to do."""
        return f"{' '.join(self.refused)} {self.advice}"

    @property
    def rebuilds(self) -> tuple[str, ...]:
        """What to name after --rebuild."""
        return (self.operation.name,)

    @property
    def advice(self) -> str:
        """What can be done about what is refused."""
        return (
            f"Start with --rebuild {self.operation.name} to compute it again from {_logs(self.operation)}, "
            "undo the change, give it another name, or go back with --from-savepoint to one made under these terms."
        )

    @property
    def laid_out(self) -> Operation:
        """The operation, with what it keeps in the order in which its state has it."""
        return follow_layout(self.operation, self.terms)

    def checkpoint(self, state: Path) -> Path:
        return state.resolve() / "checkpoints" / self.operation.name / f"operation-{self.number}"


def rebuilt(app: App, names: Collection[str]) -> frozenset[str]:
    """All that is computed again with what is named: an operation with its streams, and what is made of those."""
    found = set(names)
    for made_by in app.derivations:  # each after those it reads
        streams = {stream.name for stream in app.made_by(made_by)}
        reads = {stream.name for stream in made_by.inputs if isinstance(stream, Derived)}
        if isinstance(made_by, Operation) and not found.isdisjoint({made_by.name, *streams, *reads}):
            found |= {made_by.name, *streams}
    return frozenset(found)


def begin_run(app: App, run: KeptRun, state: Path, broker: str) -> None:
    """Write down what now runs; what an earlier run of it wrote is let go of where it is computed again."""
    past = _load(state, run.operation.name) or {}
    begins: dict[str, dict[int, int]] = past.get("begins", {})
    if past and past["number"] != run.number:
        what = run.operation.what
        kept = [what.view.topic] if isinstance(what, Recount) else []
        outputs = app.made_by(run.operation)
        emptied = empty(broker, [*kept, *(topic for out in outputs for topic in (out.name, *fates_of(out)))])
        begins = _by_topic(emptied)
    written = {"number": run.number, "terms": run.terms, "since_us": run.since_us, "begins": begins}
    write_whole(_file(state, run.operation.name), json.dumps(written, indent=2))


def first_offsets(state: Path) -> dict[str, dict[int, int]]:
    """Of topics that were computed again: where what is in them began last, by partition. Before it nothing counts."""
    found: dict[str, dict[int, int]] = {}
    for file in sorted((state / FOLDER).glob("*.json")):
        for topic, begins in json.loads(file.read_text()).get("begins", {}).items():
            found[topic] = {int(number): offset for number, offset in begins.items()}
    return found


def _by_topic(offsets: Mapping[Partition, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for at, offset in offsets.items():
        found.setdefault(at.topic, {})[at.number] = offset
    return found


def plan_run(operation: Operation, state: Path, rebuild: bool = False, since_us: int | None = None) -> KeptRun:
    """Compare an operation with what an earlier run of it kept; nothing is written."""
    terms, past = terms_of(operation), _load(state, operation.name)
    if past is None:
        named, logs = f"{kind_of(terms)} {operation.name}", _logs(operation)
        added = f"{named} is new: it is computed from the earliest record of {logs}"
        return KeptRun(operation, 1, terms, changes=(added if has_run(state) else "first run",))
    if rebuild:
        again = f"{operation.name} is computed again from its inputs' clean logs"
        return KeptRun(operation, past["number"] + 1, terms, since_us, (again,))
    terms = terms_of(follow_layout(operation, past["terms"]))
    changes = describe_changes(past["terms"], terms)
    if not changes:
        return KeptRun(operation, past["number"], terms, past["since_us"])
    names = str(operation.written), f"{kind_of(past['terms'])} {operation.name}"  # of a view they are the same
    refused = f"{': '.join(dict.fromkeys(names))}: {' and '.join(changes)}."
    return KeptRun(operation, past["number"], past["terms"], past["since_us"], refused=(refused,))


def _logs(operation: Operation) -> str:
    return " and ".join(stream.clean for stream in dict.fromkeys(operation.inputs))


def _file(state: Path, name: str) -> Path:
    return state / FOLDER / f"{name}.json"


def _load(state: Path, name: str) -> dict[str, Any] | None:
    file = _file(state, name)
    return json.loads(file.read_text()) if file.exists() else None
