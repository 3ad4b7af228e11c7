"""`headrace drift APP MODEL`: compares what a model is served with its training data, and gives advice."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.declare.app import load_app
from headrace.declare.durations import duration_text, duration_us
from headrace.declare.models.model import Model
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting, lake_folder

if TYPE_CHECKING:
    from headrace.monitoring.drift.drift_window import WindowTiles
    from headrace.monitoring.drift.window_report import DriftWindowReport

TABLE_HEADER = ("column", "segment", "test", "statistic", "critical", "multiple", "effect", "importance")


@click.command()
@click.argument("app")
@click.argument("model")
@click.option("--over", metavar="DURATION", help="The window of served vectors; by default that of drift=.")
@click.option("--version", "of_version", metavar="VERSION", help="The version; by default the champion.")
@setting_options("state", "lake")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def drift(app: str, model: str, over: str | None, of_version: str | None, in_json: bool, **flags: Any) -> None:
    """The drift of MODEL: how served vectors differ from its training data, the most important first, and advice."""
    from headrace.monitoring.drift.drift_writer import DriftWindowQuery
    from headrace.monitoring.drift.window_report import to_report_row

    declared_model, state = load_app(app).model(model), Path(flags["state"])
    folder = lake_folder(flags["lake"], state)
    if folder is None:
        raise BadSetting("--lake off: served vectors are counted in the lake. Give its folder with --lake DIR.")
    window_us = declared_model.drift.window_us if over is None else duration_us(over, "--over")
    window_request = DriftWindowQuery(of_version or _champion_version(declared_model, state), window_us)
    report, rows = _read_drift_report(declared_model, state, folder, window_request)
    ranked = [to_report_row(drifted_column, rows) for drifted_column in report.drifted]
    if in_json:
        summary = {
            "model": model,
            "version": window_request.version,
            "window": duration_text(window_us),
            "rows": report.rows,
        }
        click.echo(
            json.dumps(summary | {"multiple": report.multiple, "columns": dict(report.multiples), "ranked": ranked})
        )
        return
    click.echo(f"{model} version {window_request.version}: {report.rows:,} vectors in {duration_text(window_us)}\n")
    click.echo("\n".join(_format_table(ranked) if ranked else _no_drift_lines(report, declared_model)))
    click.echo("\n".join(_advice_lines(app, declared_model, ranked)))


def _champion_version(model: Model, state: Path) -> str:
    from headrace.models.versions.version_loader import require_champion
    from headrace.models.versions.version_store import VersionStore

    if model.train is None:
        limitation = "learns from each outcome" if model.file is None else "has file="
        raise BadSetting(
            f"Model {model.name!r} {limitation}, and has no card that says what it was trained on. Drift needs train=. "
            f"Write headrace quality APP {model.name} for how good it is."
        )
    return require_champion(model, VersionStore(state, model.name).load_roles())


def _read_drift_report(
    model: Model, state: Path, lake: Path, window_request: Any
) -> tuple["DriftWindowReport", "WindowTiles"]:
    from headrace.models.versions.version_store import VersionStore
    from headrace.monitoring.drift.drift_layout import create_layout
    from headrace.monitoring.drift.drift_writer import DriftLayoutCache, read_window
    from headrace.monitoring.drift.ranking import feature_importance
    from headrace.monitoring.drift.window_report import create_policy, create_window_report

    card = VersionStore(state, model.name).load_card(window_request.version)
    layout = create_layout(card)  # raises if the card cannot be compared
    rows = read_window(lake, model, DriftLayoutCache(model, state), window_request, time.time_ns() // 1000)
    return create_window_report(layout, rows, create_policy(model.drift), feature_importance(card)), rows


def _format_table(ranked: list[dict[str, Any]]) -> list[str]:
    lines = [TABLE_HEADER, *(_format_cells(row) for row in ranked)]
    widths = [max(len(line[column_index]) for line in lines) for column_index in range(len(TABLE_HEADER))]
    return [
        "  ".join(
            cell.ljust(width) if index < 3 else cell.rjust(width) for index, (cell, width) in enumerate(padded_cells)
        )
        for padded_cells in (list(zip(line, widths, strict=True)) for line in lines)
    ]


def _format_cells(row: dict[str, Any]) -> tuple[str, ...]:
    segment = ", ".join(f"{name}={value}" for name, value in row["segment"].items()) or "all"
    numbers = [row[name] for name in TABLE_HEADER[3:]]
    return (
        row["column"],
        segment,
        row["test"],
        *("exact" if number is None else f"{number:.3g}" for number in numbers),
    )


def _no_drift_lines(report: "DriftWindowReport", model: Model) -> list[str]:
    if not report.multiples:
        return [f"Too few for a test: {model.drift.least_rows} vectors are needed."]
    nearest = max(report.multiples, key=lambda name: report.multiples[name])
    return [f"Nothing drifted. The nearest is {nearest}, at {report.multiples[nearest]:.2f} of what is drift."]


def _advice_lines(app: str, model: Model, ranked: list[dict[str, Any]]) -> list[str]:
    """Advice for each kind of drift that the tests found."""
    if not ranked:
        return []
    lines = ["", "What to do", *(f"  {row['column']}: {_explain_drift(row)}" for row in ranked[:3])]
    retrain_command = (
        f"headrace retrain {app} {model.name}" if model.labels else f"headrace train {app} {model.name} --spine FILE"
    )
    return [*lines, f"  If this shift is permanent: {retrain_command}"]


def _explain_drift(row: dict[str, Any]) -> str:
    if row["column"] == "score":
        return "the scores have changed: look at the inputs above, or at the version."
    if row["test"] == "missing":
        return "null more or less often than before: look at its source, headrace plan names its stream."
    if row["test"] == "infinite":
        return "infinite: a division by zero."
    if row["test"] == "unseen":
        most_frequent = sorted(row["new"].items(), key=lambda item: -item[1])[:5]
        examples = (
            f", such as {', '.join(f'{text!r} ({count})' for text, count in most_frequent)}" if most_frequent else ""
        )
        return f"values it was never trained on{examples}: a new source, unit or spelling?"
    return (
        "the same values in other shares: other customers, another season, another producer, or windows not filled yet?"
    )
