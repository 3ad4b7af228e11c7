"""Versions of tiles queries: each computes some views of a stream; a changed declaration may need a new one.

first up: payments → version 1 computes CardSpend, MerchantFlow
a view is added    → version 2 computes it alone, from the earliest clean record on; version 1 continues
… with a backfill  → a version of its own counts only what comes after the cutover
a view is changed  → refused, with what to do; `--rebuild payments` replays the clean log into one new version
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from headrace.declare.features.view import View
from headrace.declare.names import query_name
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.spark.tiles.backfill_cutovers import Backfill, Cutover, load_backfill
from headrace.spark.tiles.view_changes import describe_shape_changes
from headrace.tiles.layout import hop_layouts

ViewShape = dict[str, object]


class IncompatibleChangeError(HeadraceError):
    """A declaration has changed in a way that its state cannot follow."""


@dataclass(frozen=True)
class QueryVersion:
    """One tiles query of a stream: its number, its views, and its cutover if it has one."""

    number: int
    views: tuple[View, ...]
    cutover: Cutover | None = None

    def build_query_name(self, stream: Stream) -> str:
        return query_name(stream.name, f"tiles-{self.number}")


@dataclass(frozen=True)
class QueryVersionPlan:
    """The tiles queries of a stream that run from now on, and the changes.

    `shared_streams` names the other streams of changed views: all of them are rebuilt, or none.
    """

    stream: Stream
    versions: tuple[QueryVersion, ...]
    partitions: int
    changes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    has_history: bool = False
    shared_streams: tuple[str, ...] = ()

    @property
    def refusal_message(self) -> str:
        """Why it cannot run, and what to do."""
        return f"{' '.join(self.refusals)} {self.advice}"

    @property
    def rebuild_names(self) -> tuple[str, ...]:
        """The names for --rebuild, where that helps."""
        return () if self.has_history else tuple(sorted({self.stream.name, *self.shared_streams}))

    @property
    def advice(self) -> str:
        """What to do about the refusals."""
        if self.has_history:
            return "Undo it, or give the view another name and backfill that: a history is not rebuilt from the log."
        streams = self.rebuild_names
        possessive, log_word = ("its", "log") if len(streams) == 1 else ("their", "logs")
        return (
            f"Undo the change, give the view another name, or start with --rebuild {' --rebuild '.join(streams)} "
            f"to compute every view of {' and '.join(streams)} again from {possessive} clean {log_word}."
        )


@dataclass
class QueryVersionState:
    """The saved state of an earlier run, if there was one: the shapes of the views of each version."""

    identity: ViewShape = field(default_factory=dict)
    versions: dict[int, dict[str, ViewShape]] = field(default_factory=dict)
    partitions: int = 0
    next_number: int = 1
    cutovers: dict[int, Cutover] = field(default_factory=dict)
    has_run: bool = True


def has_run(state_folder: Path) -> bool:
    """Whether any stream or operation has run with this state folder."""
    return any(file for folder in ("generations", "operations") for file in (state_folder / folder).glob("*.json"))


def plan_query_versions(
    stream: Stream, views: Sequence[View], state_folder: Path, partitions: int, rebuild: bool = False
) -> QueryVersionPlan:
    """Compare the declared views with the saved ones; nothing is written."""
    saved = _load_state(_state_file(state_folder, stream))
    backfills = {view.name: backfill for view in views if (backfill := load_backfill(state_folder, view)) is not None}
    if saved.has_run and not rebuild:
        return _continue_versions(
            stream, views, saved if saved.versions else replace(saved, partitions=partitions), backfills
        )
    started = _start_versions(stream, views, partitions, saved, backfills)
    is_added = not saved.has_run and has_run(state_folder)
    return replace(started, changes=(f"{stream.name} is a new stream", *started.changes[1:])) if is_added else started


def _start_versions(
    stream: Stream, views: Sequence[View], partitions: int, saved: QueryVersionState, backfills: Mapping[str, Backfill]
) -> QueryVersionPlan:
    """New versions of all views: in the first run, or for a rebuild."""
    versions = _new_versions(stream, views, saved.next_number, backfills)
    if saved.versions and (backfills or saved.cutovers):
        refusal = f"A view of {stream.name} was backfilled, and a rebuild would lose its history."
        return QueryVersionPlan(stream, versions, partitions, (), (refusal,), has_history=True)
    changes = ("every view is computed again from the clean log",) if saved.versions else ()
    if not saved.has_run:
        changes = ("first run",)
    backfill_changes = tuple(_describe_start(stream, view, backfills) for view in views if view.name in backfills)
    return QueryVersionPlan(
        stream, versions, partitions, changes + backfill_changes, _outdated_backfills(views, backfills), bool(backfills)
    )


def _new_versions(
    stream: Stream, views: Sequence[View], number: int, backfills: Mapping[str, Backfill]
) -> tuple[QueryVersion, ...]:
    """New versions: one of all views without a backfill, and one of each with a backfill."""
    log_views = tuple(view for view in views if view.name not in backfills)
    log_versions = [QueryVersion(number, log_views)] if log_views else []
    backfilled_views = [view for view in views if view.name in backfills]
    return (
        *log_versions,
        *(
            QueryVersion(version_number, (view,), backfills[view.name].cuts.get(stream.name))
            for version_number, view in enumerate(backfilled_views, number + len(log_versions))
        ),
    )


def _describe_start(stream: Stream, view: View, backfills: Mapping[str, Backfill]) -> str:
    cutover = backfills[view.name].cuts.get(stream.name) if view.name in backfills else None
    if cutover is None:
        return f"{view.name} is new: it is computed from the earliest clean record"
    return f"{view.name} has a history: the stream counts from {cutover.describe(stream.name)} on"


def _outdated_backfills(views: Iterable[View], backfills: Mapping[str, Backfill]) -> tuple[str, ...]:
    return tuple(
        f"{view.name} has changed since its history was folded."
        for view in views
        if view.name in backfills and not backfills[view.name].matches_view(view)
    )


def _continue_versions(
    stream: Stream, views: Sequence[View], saved: QueryVersionState, backfills: Mapping[str, Backfill]
) -> QueryVersionPlan:
    declared_views = {view.name: view for view in views}
    versions, refusals, removals, shared_streams = [], [], list[str](), set[str]()
    if saved.versions and saved.identity != _stream_identity(stream):
        refusals.append(f"stream {stream.name}: {_describe_identity_change(saved.identity, _stream_identity(stream))}.")
    for number, shapes in saved.versions.items():
        removed_names = [name for name in shapes if name not in declared_views]
        if len(removed_names) == len(shapes):
            removals += [f"{name} is gone: its tiles are computed no more" for name in removed_names]
            continue
        refusals += [
            f"{name} is gone, but the state it shares with {_other_names(shapes, name)} still holds it."
            for name in removed_names
        ]
        changed_names = [
            name for name in shapes if name in declared_views and shapes[name] != view_shape(declared_views[name])
        ]
        refusals += [_describe_difference(name, shapes[name], declared_views[name]) for name in changed_names]
        shared_streams.update(
            view_stream.name for name in changed_names for view_stream in declared_views[name].streams
        )
        cutover = saved.cutovers.get(number)
        refusals += [
            _describe_cutover_mismatch(name)
            for name in shapes
            if name in backfills and backfills[name].cuts.get(stream.name) != cutover
        ]
        versions.append(
            QueryVersion(number, tuple(declared_views[name] for name in shapes if name in declared_views), cutover)
        )
    known_names = {name for shapes in saved.versions.values() for name in shapes}
    new_views = tuple(view for view in views if view.name not in known_names)
    versions += _new_versions(stream, new_views, saved.next_number, backfills)
    changes = (*(_describe_start(stream, view, backfills) for view in new_views), *removals)
    refusals += _outdated_backfills(new_views, backfills)
    has_history = bool(backfills or saved.cutovers)
    return QueryVersionPlan(
        stream, tuple(versions), saved.partitions, changes, tuple(refusals), has_history, tuple(sorted(shared_streams))
    )


def _describe_cutover_mismatch(name: str) -> str:
    return f"{name} is computed by a query that does not begin where its history ends."


def is_computed_without_cutover(view: View, state_folder: Path) -> bool:
    """Whether a query, of any of its streams, already computes a view without a cutover."""
    saved_states = [_load_state(_state_file(state_folder, stream)) for stream in view.streams]
    return any(
        view.name in shapes and number not in saved.cutovers
        for saved in saved_states
        for number, shapes in saved.versions.items()
    )


def _other_names(shapes: Iterable[str], name: str) -> str:
    return ", ".join(other for other in shapes if other != name)


def _describe_difference(name: str, saved_shape: ViewShape, view: View) -> str:
    return f"view {name}: {' and '.join(describe_shape_changes(saved_shape, view_shape(view)))}."


def view_shape(view: View) -> ViewShape:
    """The parts of a view that its state depends on: a new window that needs no new tiles changes nothing here.

    A view of one stream does not name it: it is saved with that stream.
    """
    by: list[object] = [[column.name, column.type] for column in view.entity]
    tiles: dict[str, object] = {
        f"hop {layout.hop_us // 1000} ms": [slot.identity for slot in layout.slots] for layout in hop_layouts(view)
    }
    streams = {"streams": [stream.name for stream in view.sorted_streams]} if len(view.streams) > 1 else {}
    salt = {"salt": view.salt} if view.salt > 1 else {}
    return {"by": by, **streams, **salt, **tiles}


def _stream_identity(stream: Stream) -> ViewShape:
    id_column = stream.schema.column(stream.id, stream.name)
    return {"id": id_column.name, "type": id_column.type, "time": stream.time}


def _describe_identity_change(saved_identity: ViewShape, current_identity: ViewShape) -> str:
    """The changes of the columns for id and event time."""
    old, new = (
        {"id": f"{identity['id']} {identity['type']}", "time": identity["time"]}
        for identity in (saved_identity, current_identity)
    )
    return " and ".join(f"`{part}` changed from {old[part]} to {new[part]}" for part in old if old[part] != new[part])


def save_query_versions(plan: QueryVersionPlan, state_folder: Path) -> None:
    """Save the versions atomically."""
    stream = plan.stream
    file = _state_file(state_folder, stream)
    saved = _load_state(file)
    newest_number = max((version.number for version in plan.versions), default=0)
    data = {
        "identity": _stream_identity(stream),
        "partitions": plan.partitions,
        "next_number": max(saved.next_number, newest_number + 1),
        "generations": {
            query_version.number: {view.name: view_shape(view) for view in query_version.views}
            for query_version in plan.versions
        },
        "cuts": {g.number: asdict(g.cutover) for g in plan.versions if g.cutover is not None},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    temp_file = file.with_suffix(".draft")
    temp_file.write_text(json.dumps(data, indent=2))
    temp_file.replace(file)


def _state_file(state_folder: Path, stream: Stream) -> Path:
    return state_folder / "generations" / f"{stream.name}.json"


def _load_state(file: Path) -> QueryVersionState:
    if not file.exists():
        return QueryVersionState(has_run=False)
    data = json.loads(file.read_text())
    versions = {int(number): views for number, views in data["generations"].items()}
    cutovers = {int(number): Cutover.from_json(cutover_data) for number, cutover_data in data.get("cuts", {}).items()}
    return QueryVersionState(data["identity"], versions, data["partitions"], data["next_number"], cutovers)
