"""Generations: which tiles query keeps which views, and what a changed declaration does to them.

first up: payments → generation 1 keeps CardSpend, MerchantFlow
a view is added    → generation 2 keeps it alone, from the earliest clean record on; generation 1 goes on
… with a backfill  → a generation of its own counts only what comes after the cut
a view is changed  → refused, with what to do; `--rebuild payments` replays the clean log into one new generation
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from headrace.declare.names import query_name
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.stream.backfills import Backfill, Cut, load
from headrace.stream.view_changes import describe_shape_changes
from headrace.tiles.layout import layouts_of

Shape = dict[str, object]


class ChangedDefinition(HeadraceError):
    """A declaration has changed in a way the kept state cannot follow."""


@dataclass(frozen=True)
class Generation:
    """One tiles query of a stream: its number, the views it keeps, and where it begins to count if that is a cut."""

    number: int
    views: tuple[View, ...]
    cut: Cut | None = None

    def query(self, stream: Stream) -> str:
        return query_name(stream.name, f"tiles-{self.number}")


@dataclass(frozen=True)
class Generations:
    """The tiles queries of a stream that run from now on, and what that changes.

    `together` names the other streams of changed views: all of them are rebuilt, or none.
    """

    stream: Stream
    running: tuple[Generation, ...]
    partitions: int
    changes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    have_history: bool = False
    together: tuple[str, ...] = ()

    @property
    def refusal(self) -> str:
        """Why it cannot run, and what to do."""
        return f"{' '.join(self.refused)} {self.advice}"

    @property
    def rebuilds(self) -> tuple[str, ...]:
        """What to name after --rebuild, where that helps."""
        return () if self.have_history else tuple(sorted({self.stream.name, *self.together}))

    @property
    def advice(self) -> str:
        """What can be done about what is refused."""
        if self.have_history:
            return "Undo it, or give the view another name and backfill that: a history is not rebuilt from the log."
        streams = self.rebuilds
        its, logs = ("its", "log") if len(streams) == 1 else ("their", "logs")
        return (
            f"Undo the change, give the view another name, or start with --rebuild {' --rebuild '.join(streams)} "
            f"to compute every view of {' and '.join(streams)} again from {its} clean {logs}."
        )


@dataclass
class Remembered:
    """What an earlier run kept, if there was one: the shapes of the views of each generation."""

    identity: Shape = field(default_factory=dict)
    generations: dict[int, dict[str, Shape]] = field(default_factory=dict)
    partitions: int = 0
    next_number: int = 1
    cuts: dict[int, Cut] = field(default_factory=dict)
    has_run: bool = True


def has_run(state: Path) -> bool:
    """Whether any stream or operation has run with this state."""
    return any(file for folder in ("generations", "operations") for file in (state / folder).glob("*.json"))


def plan_generations(
    stream: Stream, views: Sequence[View], state: Path, partitions: int, rebuild: bool = False
) -> Generations:
    """Compare the declared views with the remembered ones; nothing is written."""
    past = _load(_file(state, stream))
    filled = {view.name: found for view in views if (found := load(state, view)) is not None}
    if past.has_run and not rebuild:
        return _follow(stream, views, past if past.generations else replace(past, partitions=partitions), filled)
    begun = _begin(stream, views, partitions, past, filled)
    is_added = not past.has_run and has_run(state)
    return replace(begun, changes=(f"{stream.name} is a new stream", *begun.changes[1:])) if is_added else begun


def _begin(
    stream: Stream, views: Sequence[View], partitions: int, past: Remembered, filled: Mapping[str, Backfill]
) -> Generations:
    """All views anew: in the first run, or because a rebuild was asked for."""
    running = _added(stream, views, past.next_number, filled)
    if past.generations and (filled or past.cuts):
        refused = f"A view of {stream.name} was backfilled, and a rebuild would lose its history."
        return Generations(stream, running, partitions, (), (refused,), have_history=True)
    changes = ("every view is computed again from the clean log",) if past.generations else ()
    if not past.has_run:
        changes = ("first run",)
    told = tuple(_told(stream, view, filled) for view in views if view.name in filled)
    return Generations(stream, running, partitions, changes + told, _unfit(views, filled), bool(filled))


def _added(
    stream: Stream, views: Sequence[View], number: int, filled: Mapping[str, Backfill]
) -> tuple[Generation, ...]:
    """New generations: one of all views that begin with the log, and one of each that has a history."""
    together = tuple(view for view in views if view.name not in filled)
    first = [Generation(number, together)] if together else []
    with_history = [view for view in views if view.name in filled]
    return (
        *first,
        *(
            Generation(n, (view,), filled[view.name].cuts.get(stream.name))
            for n, view in enumerate(with_history, number + len(first))
        ),
    )


def _told(stream: Stream, view: View, filled: Mapping[str, Backfill]) -> str:
    cut = filled[view.name].cuts.get(stream.name) if view.name in filled else None
    if cut is None:
        return f"{view.name} is new: it is computed from the earliest clean record"
    return f"{view.name} has a history: the stream counts from {cut.described(stream.name)} on"


def _unfit(views: Iterable[View], filled: Mapping[str, Backfill]) -> tuple[str, ...]:
    return tuple(
        f"{view.name} has changed since its history was folded."
        for view in views
        if view.name in filled and not filled[view.name].fits(view)
    )


def _follow(stream: Stream, views: Sequence[View], past: Remembered, filled: Mapping[str, Backfill]) -> Generations:
    declared = {view.name: view for view in views}
    running, refused, removed, together = [], [], list[str](), set[str]()
    if past.generations and past.identity != _identity(stream):
        refused.append(f"stream {stream.name}: {_renamed(past.identity, _identity(stream))}.")
    for number, shapes in past.generations.items():
        gone = [name for name in shapes if name not in declared]
        if len(gone) == len(shapes):
            removed += [f"{name} is gone: its tiles are computed no more" for name in gone]
            continue
        refused += [
            f"{name} is gone, but the state it shares with {_others(shapes, name)} still holds it." for name in gone
        ]
        changed = [name for name in shapes if name in declared and shapes[name] != shape(declared[name])]
        refused += [_difference(name, shapes[name], declared[name]) for name in changed]
        together.update(other.name for name in changed for other in declared[name].streams)
        cut = past.cuts.get(number)
        refused += [
            _cut_otherwise(name) for name in shapes if name in filled and filled[name].cuts.get(stream.name) != cut
        ]
        running.append(Generation(number, tuple(declared[name] for name in shapes if name in declared), cut))
    known = {name for shapes in past.generations.values() for name in shapes}
    added = tuple(view for view in views if view.name not in known)
    running += _added(stream, added, past.next_number, filled)
    changes = (*(_told(stream, view, filled) for view in added), *removed)
    refused += _unfit(added, filled)
    have_history = bool(filled or past.cuts)
    return Generations(
        stream, tuple(running), past.partitions, changes, tuple(refused), have_history, tuple(sorted(together))
    )


def _cut_otherwise(name: str) -> str:
    return f"{name} is kept by a query that does not begin where its history ends."


def is_kept_from_the_beginning(view: View, state: Path) -> bool:
    """Whether a view is kept already by a query, of any of its streams, that has no cut."""
    pasts = [_load(_file(state, stream)) for stream in view.streams]
    return any(
        view.name in shapes and number not in past.cuts for past in pasts for number, shapes in past.generations.items()
    )


def _others(shapes: Iterable[str], name: str) -> str:
    return ", ".join(other for other in shapes if other != name)


def _difference(name: str, before: Shape, view: View) -> str:
    return f"view {name}: {' and '.join(describe_shape_changes(before, shape(view)))}."


def shape(view: View) -> Shape:
    """What of a view its state depends on: a new window that needs no new tiles changes nothing here.

    A view of one stream does not name it: it is remembered with that stream.
    """
    by: list[object] = [[column.name, column.type] for column in view.entity]
    tiles: dict[str, object] = {
        f"hop {layout.hop_us // 1000} ms": [slot.described for slot in layout.slots] for layout in layouts_of(view)
    }
    streams = {"streams": [stream.name for stream in view.streams_by_name]} if len(view.streams) > 1 else {}
    salt = {"salt": view.salt} if view.salt > 1 else {}
    return {"by": by, **streams, **salt, **tiles}


def _identity(stream: Stream) -> Shape:
    column = stream.schema.column(stream.id, stream.name)
    return {"id": column.name, "type": column.type, "time": stream.time}


def _renamed(before: Shape, now: Shape) -> str:
    """How the columns that say which event is which, and when it was, have changed."""
    was, is_ = ({"id": f"{one['id']} {one['type']}", "time": one["time"]} for one in (before, now))
    return " and ".join(f"`{part}` changed from {was[part]} to {is_[part]}" for part in was if was[part] != is_[part])


def remember(generations: Generations, state: Path) -> None:
    """Write down what now runs, whole or not at all."""
    stream = generations.stream
    file = _file(state, stream)
    past = _load(file)
    newest = max((generation.number for generation in generations.running), default=0)
    kept = {
        "identity": _identity(stream),
        "partitions": generations.partitions,
        "next_number": max(past.next_number, newest + 1),
        "generations": {g.number: {view.name: shape(view) for view in g.views} for g in generations.running},
        "cuts": {g.number: asdict(g.cut) for g in generations.running if g.cut is not None},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(kept, indent=2))
    draft.replace(file)


def _file(state: Path, stream: Stream) -> Path:
    return state / "generations" / f"{stream.name}.json"


def _load(file: Path) -> Remembered:
    if not file.exists():
        return Remembered(has_run=False)
    kept = json.loads(file.read_text())
    generations = {int(number): views for number, views in kept["generations"].items()}
    cuts = {int(number): Cut.read(cut) for number, cut in kept.get("cuts", {}).items()}
    return Remembered(kept["identity"], generations, kept["partitions"], kept["next_number"], cuts)
