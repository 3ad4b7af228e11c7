"""An app is a module: its streams and those derived of them, its views, models, alerts, queries, sinks and outboxes."""

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from headrace.declare.alert import Alert
from headrace.declare.changes import Latest
from headrace.declare.derivation import Derivation, Derived
from headrace.declare.model import Model
from headrace.declare.name_collisions import require_distinct_names
from headrace.declare.outbox import Outbox
from headrace.declare.query import Query
from headrace.declare.recounted import recount_of
from headrace.declare.series import Objective, Series, Share
from headrace.declare.shown import shown
from headrace.declare.sink import Sink
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.errors import DeclarationError

Wanted = TypeVar("Wanted")


@dataclass(frozen=True)
class App:
    """What a module declares, in the order it does; a derived stream comes after those it is made of."""

    name: str
    streams: tuple[Stream, ...]
    views: tuple[View, ...]
    models: tuple[Model, ...] = ()
    alerts: tuple[Alert, ...] = ()
    queries: tuple[Query, ...] = ()
    sinks: tuple[Sink, ...] = ()
    outboxes: tuple[Outbox, ...] = ()

    def _repr_html_(self) -> str:
        kinds: dict[str, Sequence[Any]] = {
            "stream": self.streams,
            "view": self.views,
            "model": self.models,
            "alert": self.alerts,
            "query": self.queries,
            "sink": self.sinks,
            "outbox": self.outboxes,
        }
        rows = [(kind, one.name) for kind, several in kinds.items() for one in several]
        return shown(self.name, "an app", ("declares", "named"), rows)

    def view(self, name: str) -> View:
        for view in self.views:
            if view.name == name:
                return view
        raise DeclarationError(
            f"{self.name}: there is no view {name!r}. It declares {', '.join(v.name for v in self.views)}."
        )

    def stream(self, name: str) -> Stream:
        for stream in self.streams:
            if stream.name == name:
                return stream
        raise DeclarationError(
            f"{self.name}: there is no stream {name!r}. It declares {', '.join(s.name for s in self.streams)}."
        )

    def model(self, name: str) -> Model:
        for model in self.models:
            if model.name == name:
                return model
        declared = ", ".join(model.name for model in self.models) or "none: write fraud = hr.Model(…)"
        raise DeclarationError(f"{self.name}: there is no model {name!r}. It declares {declared}.")

    def sink(self, name: str) -> Sink:
        for sink in self.sinks:
            if name in (sink.name, sink.slug):
                return sink
        declared = ", ".join(repr(sink.name) for sink in self.sinks) or "none: write warehouse = hr.Sink(…)"
        raise DeclarationError(f"{self.name}: there is no sink {name!r}. It declares {declared}.")

    def views_of(self, stream: Stream) -> tuple[View, ...]:
        """The views of a stream's events; those of a captured table's rows are kept by operations."""
        return tuple(view for view in self.views if stream in view.streams and not view.captured)

    @property
    def derivations(self) -> tuple[Derivation, ...]:
        """How its derived streams are made, each after those it reads, and its views of captured tables."""
        made_by = dict.fromkeys(stream.made_by for stream in self.streams if isinstance(stream, Derived))
        return (*made_by, *(recount_of(view) for view in self.views if view.captured))

    def made_by(self, derivation: Derivation) -> tuple[Derived, ...]:
        """The streams that a derivation writes."""
        return tuple(stream for stream in self.streams if isinstance(stream, Derived) and stream.made_by == derivation)


def load_app(where: str) -> App:
    """The app of a file (`examples/fraud/app.py`) or a module (`shop.features`)."""
    return app_of(_import_file(Path(where)) if where.endswith(".py") else _import_module(where))


def app_of(module: ModuleType) -> App:
    """What is declared among a module's names; all but views and models also in lists."""
    values = list(vars(module).values())
    sinks = tuple(dict.fromkeys(_among(values, Sink)))
    declared_models = [value for value in values if isinstance(value, Model)]
    models = tuple(dict.fromkeys([*declared_models, *(sink.of for sink in sinks if isinstance(sink.of, Model))]))
    declared_views = [value for value in values if isinstance(value, View)]
    published = [sink.of for sink in sinks if isinstance(sink.of, View)]
    read_by_models = [view for model in models for view in model.views]
    views = tuple(dict.fromkeys([*declared_views, *read_by_models, *published]))
    declared_streams = _among(values, Stream)
    read = (stream for model in models for stream in _streams_of(model))
    kept = (stream for view in views for stream in (*view.streams, *_captured_of(view)))
    sunk = (sink.of for sink in sinks if isinstance(sink.of, Stream))
    used = [*declared_streams, *kept, *read, *sunk]
    streams = tuple(dict.fromkeys(stream for one in used for stream in _with_inputs(one)))
    if not streams:
        raise DeclarationError(f'{module.__name__}: no streams. Declare one: payments = hr.Stream("payments", …).')
    alerts = tuple(dict.fromkeys(_among(values, Alert)))
    queries = tuple(dict.fromkeys(_among(values, Query)))
    outboxes = tuple(dict.fromkeys(_among(values, Outbox)))
    app = App(module.__name__, streams, views, models, alerts, queries, sinks, outboxes)
    require_distinct_names(app)
    for alert in alerts:
        _require_watchable(alert, app)
    return app


def _among(values: Iterable[object], kind: type[Wanted]) -> Iterator[Wanted]:
    """Those of a kind, in lists as well."""
    for value in values:
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, kind):
                yield one


def _with_inputs(stream: Stream) -> Iterator[Stream]:
    """A stream, and before it every one it is made of."""
    if isinstance(stream, Derived):
        for one in stream.made_by.inputs:
            yield from _with_inputs(one)
    yield stream


def _require_watchable(alert: Alert, app: App) -> None:
    """What an alert watches must be of the app: a name with a slip of the pen would have no values, ever."""
    if not isinstance(alert.on, Series | Share | Objective):
        return
    declared = {
        "stream": [stream.name for stream in app.streams],
        "view": [view.name for view in app.views],
        "model": [model.name for model in app.models],
        "sink": [sink.name for sink in app.sinks],
    }
    for label, value in (told for series in alert.on.series for told in series.labels):
        known = declared.get(label, [value])
        if value not in known:
            raise DeclarationError(
                f"Alert {alert.name!r}: there is no {label} {value!r}. "
                f"{app.name} declares {', '.join(known) or 'none'}."
            )


def _captured_of(view: View) -> list[Stream]:
    """The captured tables that a view looks up."""
    return [one.table.changes for one in view.joined if isinstance(one.table, Latest)]


def _streams_of(model: Model) -> list[Stream]:
    return [model.stream] if model.labels is None else [model.stream, model.labels.stream]


def _import_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise DeclarationError(
            f"There is no file {str(file)!r}. Give the path of the Python file that declares your app."
        )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise DeclarationError(f"{str(file)!r} is not a Python file. Give the path of the file that declares your app.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def _import_module(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        raise DeclarationError(
            f"There is no module {name!r}. Give a file, such as app.py, or a module that can be imported."
        ) from error
    finally:
        sys.path.pop(0)
