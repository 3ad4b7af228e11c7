"""The parts of a running app: their commands, and what is affected while one is down."""

import sys

from headrace.declare.app import App
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.online_store.registry import find_store
from headrace.runtime.configuration.part_arguments import part_flags
from headrace.runtime.part_runner import has_captured_tables, has_evaluations
from headrace.runtime.settings import Settings

BROKER, REGISTRY = "broker", "registry"
OUTAGE_EFFECTS = {
    BROKER: "No event is read or written; features and predictions are served from what is stored.",
    REGISTRY: "New schemas cannot be read or registered.",
    "serve": "Features and predictions are not served over HTTP.",
    "apply": "Features in the store keep their last values.",
    "stream": "New events wait; features keep their last values.",
    "operate": "Windows, joins and patterns emit nothing; streams derived by them get no new events.",
    "connect": "Changes of captured tables do not arrive.",
    "bridge": "Events of streams that come from another log do not arrive.",
    "score": "Events of streams are not scored; predictions over HTTP go on.",
    "check": "Served values are not compared with their events.",
    "watch": "Alerts are not evaluated or sent, and nothing is pushed over OTLP.",
    "lake": "Tables of the lake get no new rows; labels that take longer than a day are not joined.",
    "evaluate": "Labels are not joined; quality and drift keep their last values.",
    "retrain": "No model is retrained.",
    "sink": "Rows wait for the targets of sinks; none is lost.",
    "outbox": "Rows of outboxes wait; none is lost.",
}


def list_parts(settings: Settings, app: App) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The processes of a running app: those required for answers, and the optional ones.

    Each part runs only if it is needed: `apply` for a shared store, `score` for models, `evaluate` for labels or drift,
    `retrain` for models with retraining, `operate` for windows, joins and patterns, `connect` for captured tables,
    `sink` for sinks, `outbox` for outboxes, and `bridge` for streams with an external source.
    """
    apply_part = ("apply",) if find_store(settings.store).is_shared else ()
    score_part = ("score",) if app.models else ()
    lake_part = () if settings.lake is None else ("lake",)
    evaluate_part = ("evaluate",) if settings.lake is not None and has_evaluations(app) else ()
    retrain_part = ("retrain",) if any(model.retrain for model in app.models) else ()
    sink_part = ("sink",) if app.sinks else ()
    outbox_part = ("outbox",) if app.outboxes else ()
    bridge_part = ("bridge",) if any(stream.from_ is not None for stream in app.streams) else ()
    operate_part = (
        ("operate",) if any(isinstance(derivation, StreamOperation) for derivation in app.derivations) else ()
    )
    connect_part = ("connect",) if has_captured_tables(app) else ()
    required_parts = (*apply_part, "serve", "stream", *bridge_part, *operate_part, *connect_part, *score_part)
    # Evaluation starts last: it is the heaviest of the optional parts, and its input is retained.
    optional_parts = ("check", "watch", *lake_part, *retrain_part, *sink_part, *outbox_part, *evaluate_part)
    return required_parts, optional_parts


def part_command(app: str, part: str, settings: Settings) -> list[str]:
    """The command that runs a part as a separate process."""
    return [sys.executable, "-m", "headrace", "run", app, part, *part_flags(settings)]
