"""`headrace plan APP`: what would run, and what has changed since the last `up`."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from headrace.cli.batch import batch_session
from headrace.cli.preflight import CheckResult, check_results
from headrace.cli.settings import settings_of, settings_options
from headrace.declare.app import App, load_app
from headrace.declare.derivation import Derivation
from headrace.declare.durations import duration_text
from headrace.declare.labels import LONGEST_IN_STREAM_US, Labels
from headrace.declare.model import Model
from headrace.declare.sink import Sink
from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.stream.derived import functions_of
from headrace.stream.plan import PlannedStream, Verdict, as_json, as_text, judged_functions, plan_app

TOLD_ABOVE = ("kept state", "online learning", "saved queries")


@click.command()
@click.argument("app")
@settings_options
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def plan(app: str, in_json: bool, **flags: Any) -> None:
    """Show what would run for APP, and what a changed declaration does to its state; exit 1 where `up` would refuse it.

    Nothing is started, and no broker is needed.
    """
    settings, declared = settings_of(flags), load_app(app)
    state = settings.state
    planned = tuple(map(_with_schemas, declared.streams, plan_app(declared, state, _judged(declared))))
    models = [_planned(model, state) for model in declared.models]
    queries = _saved(declared)
    sinks = [_sunk(sink) for sink in declared.sinks]
    outboxes = [
        {"outbox": outbox.name, "to": [stream.name for stream in declared.streams]} for outbox in declared.outboxes
    ]
    is_refused = any(stream.refused for stream in planned) or any(one["refused"] for one in [*models, *queries, *sinks])
    checks = [one for one in check_results(app, declared, settings) if _is_told(one, is_refused)]
    text = "\n\n".join(
        [
            as_text(planned),
            *map(_text, models),
            *map(_query_text, queries),
            *map(_sink_text, sinks),
            *map(_outbox_text, outboxes),
            "\n".join(map(_check_text, checks)),
        ]
    )
    found = [*as_json(planned), *models, *queries, *sinks, *outboxes, *map(asdict, checks)]
    click.echo(json.dumps(found, indent=2) if in_json else text)
    if is_refused or any(one.refused for one in checks):
        raise SystemExit(1)


def _is_told(result: CheckResult, is_refused_above: bool) -> bool:
    """Whether a check says more than stands with the streams, models and queries."""
    if result.refused and is_refused_above:
        return result.check not in TOLD_ABOVE
    return bool(result.refused or result.skipped)


def _check_text(result: CheckResult) -> str:
    said = f"REFUSED: {result.refused}" if result.refused else f"not checked: {result.skipped}"
    return f"{result.check}\n  {said}"


def _with_schemas(stream: Stream, planned: PlannedStream) -> PlannedStream:
    """With what the registry's versions mean for a stream."""
    from headrace.log.schemas.compatible import compatible

    found = compatible(stream)
    return replace(planned, schemas=(*planned.schemas, *found.warned), refused=(*planned.refused, *found.refused))


def _judged(app: App) -> dict[Derivation, Verdict]:
    """What Spark says of the app's functions: only for those is it started."""
    if not functions_of(app):
        return {}
    with batch_session(None) as spark:
        return judged_functions(app, spark)


def _planned(model: Model, state: Path) -> dict[str, Any]:
    """What a model would read and which version would score, once it is bound and tried; or why it would not."""
    from headrace.score.champions import Loaded, load_champion
    from headrace.score.learner import learner_of
    from headrace.score.versions import NoVersion

    found: dict[str, Any] = {
        "model": model.name,
        "version": None,
        "scores": model.stream.name,
        "writes": model.predictions,
        "reads": list(model.vector.names),
        "outcomes": None if model.labels is None else outcomes_text(model.labels),
        "learns": None if model.learn is None else f"from {model.lessons}, as each outcome comes",
        "refused": None,
    }
    try:
        learned = None if model.learn is None else learner_of(model).loaded
        loaded: Loaded = learned if learned is not None and model.learns_alone else load_champion(model, state)
    except NoVersion:
        return found
    except HeadraceError as refused:
        return found | {"refused": str(refused)}
    return found | {"version": loaded.version, "reads": [column.name for column in loaded.scorer.columns]}


def _text(model: dict[str, Any]) -> str:
    version = f"version {model['version']}" if model["version"] else "no champion yet"
    said = f"  REFUSED: {model['refused']}" if model["refused"] else f"  {version}; reads {', '.join(model['reads'])}"
    said += f"\n  scores {model['scores']}, writes {model['writes']}"
    said += f"\n  outcomes: {model['outcomes']}" if model["outcomes"] else ""
    said += f"\n  learns {model['learns']}" if model["learns"] else ""
    return f"{model['model']} (model)\n{said}"


def _saved(app: App) -> list[dict[str, Any]]:
    """The saved queries, each tried against the tables there will be."""
    from headrace.cli.lake import tables_of
    from headrace.sql.planned import refusals

    refused = refusals(app, tables_of(app)) if app.queries else {}
    return [
        {"query": one.name, "sql": one.sql, "every": duration_text(one.every_us), "refused": refused[one.name]}
        for one in app.queries
    ]


def _query_text(query: dict[str, Any]) -> str:
    said = f"REFUSED: {query['refused']}" if query["refused"] else f"every {query['every']}: {query['sql'].strip()}"
    return f"{query['query']} (query)\n  {said}"


def _sunk(sink: Sink) -> dict[str, Any]:
    """What a sink would read and bring where, without a word of its address."""
    from headrace.sink.schemas import taken

    how = {"delivery": sink.delivery, "honoured": sink.to.honours[sink.delivery], "key": list(sink.key)}
    refused = "; ".join(taken(sink).refused) or None
    planned = {"sink": sink.name, "reads": sink.topic, "to": sink.to.kind, **how, "columns": list(sink.columns)}
    return planned | {"refused": refused}


def _sink_text(sink: dict[str, Any]) -> str:
    by = f" by {', '.join(sink['key'])}" if sink["key"] else ""
    said = f"  {sink['reads']} to {sink['to']}{by}: {', '.join(sink['columns'])}"
    said += f"\n  REFUSED: {sink['refused']}" if sink["refused"] else ""
    return f"{sink['sink']} (sink)\n{said}\n  {sink['delivery']}: {sink['honoured']}"


def _outbox_text(outbox: dict[str, Any]) -> str:
    return (
        f"{outbox['outbox']} (outbox)\n  its rows to {', '.join(outbox['to'])}: in order per key, each once by its id"
    )


def outcomes_text(labels: Labels) -> str:
    """How predictions are joined with labels: in micro-batches, for it keeps state in Python and writes to the lake."""
    kept = duration_text(labels.within_us + labels.stream.late.until_us)
    then = "expired" if labels.default is None else f"taken as {labels.default}"
    way = (
        f"in rounds, from the lake: longer than {duration_text(LONGEST_IN_STREAM_US)}; each is over after {kept}"
        if labels.through_lake
        else f"micro-batch every 10s; each id is remembered for {kept}"
    )
    return (
        f"joins {labels.stream.clean} within {duration_text(labels.within_us)}, keeps the {labels.keep} label; "
        f"{way}, then without a label {then}"
    )
