"""An app is a module: its streams, derived streams, views, models, alerts, queries, sinks and outboxes."""

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from headrace.declare.alerts.alert import Alert
from headrace.declare.alerts.alert_values import Objective, Series, Share
from headrace.declare.features.retractable_views import retractable_view_operation
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.name_collisions import require_distinct_names
from headrace.declare.notebook_repr import render_html
from headrace.declare.operations.derived_stream import Derivation, DerivedStream
from headrace.declare.saved_query import Query
from headrace.declare.sinks.outbox import Outbox
from headrace.declare.sinks.sink import Sink
from headrace.declare.streams.change_capture import LatestRows
from headrace.declare.streams.stream import Stream
from headrace.errors import DeclarationError

DeclarationT = TypeVar("DeclarationT")


@dataclass(frozen=True)
class App:
    """The declarations of a module, in their order; a derived stream comes after its inputs."""

    name: str
    streams: tuple[Stream, ...]
    views: tuple[View, ...]
    models: tuple[Model, ...] = ()
    alerts: tuple[Alert, ...] = ()
    queries: tuple[Query, ...] = ()
    sinks: tuple[Sink, ...] = ()
    outboxes: tuple[Outbox, ...] = ()

    def _repr_html_(self) -> str:
        declarations_by_kind: dict[str, Sequence[Any]] = {
            "stream": self.streams,
            "view": self.views,
            "model": self.models,
            "alert": self.alerts,
            "query": self.queries,
            "sink": self.sinks,
            "outbox": self.outboxes,
        }
        rows = [
            (kind, declaration.name)
            for kind, declarations in declarations_by_kind.items()
            for declaration in declarations
        ]
        return render_html(self.name, "an app", ("declares", "named"), rows)

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
        """The views of a stream's events; views of a captured table's rows are maintained by operations."""
        return tuple(view for view in self.views if stream in view.streams and not view.captured_table)

    @property
    def derivations(self) -> tuple[Derivation, ...]:
        """The derivations of its derived streams, each after those it reads, and of its views of captured tables."""
        stream_derivations = dict.fromkeys(
            stream.made_by for stream in self.streams if isinstance(stream, DerivedStream)
        )
        return (*stream_derivations, *(retractable_view_operation(view) for view in self.views if view.captured_table))

    def derived_streams_of(self, derivation: Derivation) -> tuple[DerivedStream, ...]:
        """The streams that a derivation writes."""
        return tuple(
            stream for stream in self.streams if isinstance(stream, DerivedStream) and stream.made_by == derivation
        )


def load_app(path_or_module: str) -> App:
    """The app of a file (`examples/fraud/app.py`) or a module (`shop.features`)."""
    return build_app(
        _import_file(Path(path_or_module)) if path_or_module.endswith(".py") else _import_module(path_or_module)
    )


def build_app(module: ModuleType) -> App:
    """The app declared by a module's names; everything but views and models may also be in lists."""
    values = list(vars(module).values())
    sinks = tuple(dict.fromkeys(_instances_of(values, Sink)))
    declared_models = [value for value in values if isinstance(value, Model)]
    models = tuple(dict.fromkeys([*declared_models, *(sink.of for sink in sinks if isinstance(sink.of, Model))]))
    declared_views = [value for value in values if isinstance(value, View)]
    sink_views = [sink.of for sink in sinks if isinstance(sink.of, View)]
    model_views = [view for model in models for view in model.views]
    views = tuple(dict.fromkeys([*declared_views, *model_views, *sink_views]))
    declared_streams = _instances_of(values, Stream)
    model_streams = (stream for model in models for stream in _model_streams(model))
    view_streams = (stream for view in views for stream in (*view.streams, *_looked_up_changes(view)))
    sink_streams = (sink.of for sink in sinks if isinstance(sink.of, Stream))
    used_streams = [*declared_streams, *view_streams, *model_streams, *sink_streams]
    streams = tuple(dict.fromkeys(stream for used_stream in used_streams for stream in _inputs_and_stream(used_stream)))
    if not streams:
        raise DeclarationError(f'{module.__name__}: no streams. Declare one: payments = hr.Stream("payments", …).')
    alerts = tuple(dict.fromkeys(_instances_of(values, Alert)))
    queries = tuple(dict.fromkeys(_instances_of(values, Query)))
    outboxes = tuple(dict.fromkeys(_instances_of(values, Outbox)))
    app = App(module.__name__, streams, views, models, alerts, queries, sinks, outboxes)
    require_distinct_names(app)
    for alert in alerts:
        _require_watchable(alert, app)
    return app


def _instances_of(values: Iterable[object], expected_type: type[DeclarationT]) -> Iterator[DeclarationT]:
    """The instances of a type, in lists as well."""
    for value in values:
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, expected_type):
                yield item


def _inputs_and_stream(stream: Stream) -> Iterator[Stream]:
    """A stream, preceded by all its direct and indirect inputs."""
    if isinstance(stream, DerivedStream):
        for input_stream in stream.made_by.inputs:
            yield from _inputs_and_stream(input_stream)
    yield stream


def _require_watchable(alert: Alert, app: App) -> None:
    """Refuse an alert on something that the app does not declare: a misspelled name would never have values."""
    if not isinstance(alert.on, Series | Share | Objective):
        return
    names_by_label = {
        "stream": [stream.name for stream in app.streams],
        "view": [view.name for view in app.views],
        "model": [model.name for model in app.models],
        "sink": [sink.name for sink in app.sinks],
    }
    for label, value in (label_pair for series in alert.on.series for label_pair in series.labels):
        known_names = names_by_label.get(label, [value])
        if value not in known_names:
            raise DeclarationError(
                f"Alert {alert.name!r}: there is no {label} {value!r}. "
                f"{app.name} declares {', '.join(known_names) or 'none'}."
            )


def _looked_up_changes(view: View) -> list[Stream]:
    """The captured tables that a view looks up."""
    return [lookup.table.changes for lookup in view.lookups if isinstance(lookup.table, LatestRows)]


def _model_streams(model: Model) -> list[Stream]:
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
