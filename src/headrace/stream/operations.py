"""Which run of an operation keeps what, and what a changed declaration does to it.

first up: spend → run 1 begins with the earliest clean record
a changed operation → refused, with its line; `--rebuild spend` begins run 2 there, or at the time of `--since`
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.declare.app import App
from headrace.declare.derivation import Derived, Operation
from headrace.declare.recounted import Recount
from headrace.declare.source_lines import Written
from headrace.declare.stream import Stream
from headrace.log.topics import fates_of
from headrace.log.trim import empty
from headrace.stream.checkpoints import write_whole
from headrace.stream.generations import ChangedDefinition, shape

Terms = dict[str, Any]
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

    def require_possible(self) -> None:
        if self.refused:
            raise ChangedDefinition(f"{' '.join(self.refused)} {self.advice}")

    @property
    def advice(self) -> str:
        """What can be done about what is refused."""
        name = self.operation.name
        logs = " and ".join(stream.clean for stream in dict.fromkeys(self.operation.inputs))
        return (
            f"Undo the change, give it another name, start with --rebuild {name} to compute it again from {logs}, "
            "or start with --from-savepoint and a savepoint that was made under these terms."
        )

    def checkpoint(self, state: Path) -> Path:
        return state.resolve() / "checkpoints" / self.operation.name / f"operation-{self.number}"


def possible_runs(
    app: App, state: Path, rebuild: Collection[str] = (), since_us: int | None = None
) -> tuple[KeptRun, ...]:
    """What runs of every operation of an app; refuses what the kept state of any of them cannot follow."""
    operations = [made_by for made_by in app.derivations if isinstance(made_by, Operation)]
    runs = tuple(plan_run(operation, state, operation.name in rebuild, since_us) for operation in operations)
    for run in runs:
        run.require_possible()
    return runs


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
    past = _load(state, run.operation.name)
    if past is not None and past["number"] != run.number:
        what = run.operation.what
        kept = [what.view.topic] if isinstance(what, Recount) else []
        outputs = app.made_by(run.operation)
        empty(broker, [*kept, *(topic for out in outputs for topic in (out.name, *fates_of(out)))])
    written = {"number": run.number, "terms": run.terms, "since_us": run.since_us}
    write_whole(_file(state, run.operation.name), json.dumps(written, indent=2))


def plan_run(operation: Operation, state: Path, rebuild: bool = False, since_us: int | None = None) -> KeptRun:
    """Compare an operation with what an earlier run of it kept; nothing is written."""
    terms, past = terms_of(operation), _load(state, operation.name)
    if past is None:
        return KeptRun(operation, 1, terms, changes=("first run",))
    if rebuild:
        again = f"{operation.name} is computed again from its inputs' clean logs"
        return KeptRun(operation, past["number"] + 1, terms, since_us, (again,))
    different = _differences(past["terms"], terms)
    if not different:
        return KeptRun(operation, past["number"], terms, past["since_us"])
    refused = (
        f"{operation.written}: {operation.name} has changed since its state was begun "
        f"({'; '.join(different)}), and its state cannot follow."
    )
    return KeptRun(operation, past["number"], past["terms"], past["since_us"], refused=(refused,))


def terms_of(operation: Operation) -> Terms:
    """What of an operation its state depends on, in plain values: not where it is written, nor how idle it may be."""
    what = operation.what
    return {
        "by": [list(columns) for columns in operation.by],
        "what": _plain(shape(what.view) if isinstance(what, Recount) else what),
        "inputs": [_plain(stream) for stream in operation.inputs],
    }


def _plain(value: Any) -> Any:
    """A declared value as JSON has it, the same in every process."""
    if isinstance(value, Stream):
        columns = {column.name: column.type for column in value.schema}
        named = {"name": value.name, "id": value.id, "time": value.time, "arrival": value.arrival}
        return {**named, "columns": columns, "late": _plain(value.late)}
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        told = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"": type(value).__name__, **{name: _plain(one) for name, one in told.items() if _counts(one)}}
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, Callable):  # type: ignore[arg-type]  # mypy: an abstract class
        return _code(value)
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _counts(value: object) -> bool:
    return not isinstance(value, Written)


def _code(function: Any) -> str:
    """A function by what it does: its name, and its code with the constants in it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    told = repr((code.co_code, [one for one in code.co_consts if not hasattr(one, "co_code")], code.co_names))
    return f"{function.__qualname__} {sha256(told.encode()).hexdigest()[:12]}"


def _differences(before: Any, now: Any, where: str = "") -> list[str]:
    """What two terms say differently, each with its place."""
    return [f"{place} was {was}, is {is_}" for place, was, is_ in _unequal(before, now, where)]


def _unequal(before: Any, now: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in before | now:
            yield from _unequal(before.get(name), now.get(name), f"{where}.{name}".strip("."))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (was, is_) in enumerate(zip(before, now, strict=True)):
            yield from _unequal(was, is_, f"{where}[{number}]")
    elif before != now:
        yield where, before, now


def _file(state: Path, name: str) -> Path:
    return state / FOLDER / f"{name}.json"


def _load(state: Path, name: str) -> dict[str, Any] | None:
    file = _file(state, name)
    return json.loads(file.read_text()) if file.exists() else None
