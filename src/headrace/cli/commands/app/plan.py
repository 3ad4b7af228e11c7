"""`headrace plan APP`: what `up` would run, and what has changed since the last `up`."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from headrace.declare.app import App, load_app
from headrace.declare.durations import duration_text
from headrace.declare.models.labels import LONGEST_STREAM_JOIN_US, Labels
from headrace.declare.models.model import Model
from headrace.declare.operations.derived_stream import Derivation
from headrace.declare.sinks.sink import Sink
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.runtime.batch_session import batch_session
from headrace.runtime.configuration.click_options import command_settings
from headrace.runtime.configuration.settings_parser import parse_settings
from headrace.runtime.preflight import CheckResult, run_checks
from headrace.spark.derived_streams.derived_query import stream_functions
from headrace.spark.execution.execution_plan import (
    LaneDecisionOrError,
    PlannedStream,
    choose_lanes,
    plan_app,
    to_json,
    to_text,
)

CHECKS_SHOWN_ABOVE = ("kept state", "online learning", "saved queries")


@click.command()
@click.argument("app")
@command_settings("plan")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def plan(app: str, in_json: bool, **flags: Any) -> None:
    """Show what would run for APP, and what a changed declaration does to its state; exit 1 if `up` would refuse it.

    Nothing is started, and no broker is needed.
    """
    settings, loaded_app = parse_settings(flags), load_app(app)
    state = settings.state
    planned_streams = tuple(
        map(_add_schema_compatibility, loaded_app.streams, plan_app(loaded_app, state, _analyze_functions(loaded_app)))
    )
    models = [_plan_model(model, state) for model in loaded_app.models]
    queries = _plan_queries(loaded_app)
    sinks = [_plan_sink(sink) for sink in loaded_app.sinks]
    outboxes = [
        {"outbox": outbox.name, "to": [stream.name for stream in loaded_app.streams]} for outbox in loaded_app.outboxes
    ]
    is_refused = any(stream.refused for stream in planned_streams) or any(
        item["refused"] for item in [*models, *queries, *sinks]
    )
    checks = [one for one in run_checks(app, loaded_app, settings) if _is_shown(one, is_refused)]
    text = "\n\n".join(
        [
            to_text(planned_streams),
            *map(_format_model, models),
            *map(_format_query, queries),
            *map(_format_sink, sinks),
            *map(_format_outbox, outboxes),
            "\n".join(map(_format_check, checks)),
        ]
    )
    entries = [*to_json(planned_streams), *models, *queries, *sinks, *outboxes, *map(asdict, checks)]
    click.echo(json.dumps(entries, indent=2) if in_json else text)
    if is_refused or any(one.refused for one in checks):
        raise SystemExit(1)


def _is_shown(result: CheckResult, is_refused_above: bool) -> bool:
    """Whether a check reports more than the streams, models and queries already show."""
    if result.refused and is_refused_above:
        return result.check not in CHECKS_SHOWN_ABOVE
    return bool(result.refused or result.skipped)


def _format_check(result: CheckResult) -> str:
    status = f"REFUSED: {result.refused}" if result.refused else f"not checked: {result.skipped}"
    return f"{result.check}\n  {status}"


def _add_schema_compatibility(stream: Stream, planned_stream: PlannedStream) -> PlannedStream:
    """Add the compatibility of the stream's schema with the registered versions."""
    from headrace.kafka.schema_registry.compatibility import check_compatibility

    compatibility = check_compatibility(stream)
    return replace(
        planned_stream,
        schemas=(*planned_stream.schemas, *compatibility.warnings),
        refused=(*planned_stream.refused, *compatibility.errors),
    )


def _analyze_functions(app: App) -> dict[Derivation, LaneDecisionOrError]:
    """The analysis of the app's functions by Spark, which is started only if there are any."""
    if not stream_functions(app):
        return {}
    with batch_session(None) as spark:
        return choose_lanes(app, spark)


def _plan_model(model: Model, state: Path) -> dict[str, Any]:
    """The inputs of a model and the version that would score, after binding and trying it; or the error."""
    from headrace.models.online_learning.learner import create_learner
    from headrace.models.versions.version_loader import LoadedVersion, load_champion
    from headrace.models.versions.version_store import ModelVersionError

    entry: dict[str, Any] = {
        "model": model.name,
        "version": None,
        "scores": model.stream.name,
        "writes": model.predictions,
        "reads": list(model.vector.names),
        "outcomes": None if model.labels is None else describe_label_join(model.labels),
        "learns": None if model.learn is None else f"from {model.lessons}, as each outcome arrives",
        "refused": None,
    }
    try:
        online_model = None if model.learn is None else create_learner(model).loaded_version
        loaded: LoadedVersion = (
            online_model if online_model is not None and model.learns_alone else load_champion(model, state)
        )
    except ModelVersionError:
        return entry
    except HeadraceError as error:
        return entry | {"refused": str(error)}
    return entry | {"version": loaded.version, "reads": [column.name for column in loaded.scorer.columns]}


def _format_model(model: dict[str, Any]) -> str:
    version = f"version {model['version']}" if model["version"] else "no champion yet"
    text = f"  REFUSED: {model['refused']}" if model["refused"] else f"  {version}; reads {', '.join(model['reads'])}"
    text += f"\n  scores {model['scores']}, writes {model['writes']}"
    text += f"\n  outcomes: {model['outcomes']}" if model["outcomes"] else ""
    text += f"\n  learns {model['learns']}" if model["learns"] else ""
    return f"{model['model']} (model)\n{text}"


def _plan_queries(app: App) -> list[dict[str, Any]]:
    """The saved queries, each tried against the tables that will exist."""
    from headrace.runtime.parts.lake_part import lake_tables
    from headrace.sql.saved_query_check import find_query_problems

    refusal_by_query = find_query_problems(app, lake_tables(app)) if app.queries else {}
    return [
        {
            "query": query.name,
            "sql": query.sql,
            "every": duration_text(query.every_us),
            "refused": refusal_by_query[query.name],
        }
        for query in app.queries
    ]


def _format_query(query: dict[str, Any]) -> str:
    status = f"REFUSED: {query['refused']}" if query["refused"] else f"every {query['every']}: {query['sql'].strip()}"
    return f"{query['query']} (query)\n  {status}"


def _plan_sink(sink: Sink) -> dict[str, Any]:
    """What a sink reads and where it writes, without its address."""
    from headrace.connectors.sinks.sink_schemas import check_sink_schema

    delivery = {
        "delivery": sink.delivery,
        "honoured": sink.to.delivery_guarantees[sink.delivery],
        "key": list(sink.key),
    }
    refused = "; ".join(check_sink_schema(sink).errors) or None
    entry = {
        "sink": sink.name,
        "reads": sink.source_topic,
        "to": sink.to.kind,
        **delivery,
        "columns": list(sink.columns),
    }
    return entry | {"refused": refused}


def _format_sink(sink: dict[str, Any]) -> str:
    key_text = f" by {', '.join(sink['key'])}" if sink["key"] else ""
    text = f"  {sink['reads']} to {sink['to']}{key_text}: {', '.join(sink['columns'])}"
    text += f"\n  REFUSED: {sink['refused']}" if sink["refused"] else ""
    return f"{sink['sink']} (sink)\n{text}\n  {sink['delivery']}: {sink['honoured']}"


def _format_outbox(outbox: dict[str, Any]) -> str:
    return f"{outbox['outbox']} (outbox)\n  its rows to {', '.join(outbox['to'])}: in order per key, deduplicated by id"


def describe_label_join(labels: Labels) -> str:
    """How predictions are joined with labels: in micro-batches, since the join keeps Python state."""
    retention = duration_text(labels.within_us + labels.stream.late.until_us)
    unlabeled_text = "expired" if labels.default is None else f"defaults to {labels.default}"
    execution = (
        f"in rounds, from the lake: longer than {duration_text(LONGEST_STREAM_JOIN_US)}; each ends after {retention}"
        if labels.is_joined_in_lake
        else f"micro-batch every 10s; each id is kept in state for {retention}"
    )
    return (
        f"joins {labels.stream.clean} within {duration_text(labels.within_us)}, keeps the {labels.keep} label; "
        f"{execution}, then without a label {unlabeled_text}"
    )
