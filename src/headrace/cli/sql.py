"""`headrace sql "select …"`: asked of the running server, or of the lake alone where none answers."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from headrace.cli.locations import locations
from headrace.cli.settings import BadSetting, lake_read
from headrace.client import Client
from headrace.questions import ServerUnreachable, SqlAnswer

SECONDS, MOST_BYTES, MOST_ROWS = 60.0, 256 << 20, 100_000
ASK_SECONDS = 120.0  # others may be asked before
WIDEST = 60


@click.command()
@click.argument("query")
@locations("state", "http", "lake")
@click.option(
    "--limit", default=1000, show_default=True, type=click.IntRange(1, MOST_ROWS), help="So many rows at most."
)
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--json", "in_json", is_flag=True, help="The same as --format json.")
def sql(query: str, form: str, output: Path | None, in_json: bool, **flags: Any) -> None:
    """The answer to QUERY over bronze, silver, gold and, of a running app, live tables; "show tables" names them."""
    answer = _answered(query, flags)
    text = FORMS["json" if in_json else form](answer)
    if output is None:
        click.echo(text, color=True)  # as it is: without that, escapes in values are dropped in a pipe
    else:
        output.write_text(f"{text}\n")
    if answer.cut:
        click.echo(f"There is more: these are the first {len(answer.rows):,} rows. Give --limit.", err=True)


def _answered(query: str, flags: dict[str, Any]) -> SqlAnswer:
    try:
        return Client(f"http://{flags['http']}", timeout_s=ASK_SECONDS).sql(query, limit=flags["limit"])
    except ServerUnreachable:
        lake = lake_read(flags)
        if lake is None or not lake.is_dir():
            raise BadSetting(
                f"No server answers at {flags['http']}, and there is no lake{f' at {str(lake)!r}' if lake else ''}. "
                "Start `headrace up APP`, or give --http HOST:PORT or --lake DIR."
            ) from None
        click.echo(f"No server answers at {flags['http']}: this is the lake at {lake}, without live tables.", err=True)
        return _of_lake(query, lake, flags["limit"])


def _of_lake(query: str, lake: Path, limit: int) -> SqlAnswer:
    from headrace.sql.engine import Engine
    from headrace.sql.messages import Asked

    return SqlAnswer(**json.loads(Engine(lake, {}).answer(Asked(query, limit, MOST_BYTES, SECONDS), {})))


def _table(answer: SqlAnswer) -> str:
    """Columns side by side, numbers to the right; a terminal is shown what would else be obeyed."""
    names = [_cell(column["name"]) for column in answer.columns]
    rows = [[_cell(value) for value in row] for row in answer.rows]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    is_number = [
        all(type(row[place]) in {int, float, type(None)} for row in answer.rows) for place in range(len(names))
    ]

    def line(cells: Iterable[str]) -> str:
        placed = zip(cells, widths, is_number, strict=True)
        return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in placed).rstrip()

    tail = f"{len(rows):,} row{'s' if len(rows) != 1 else ''} in {answer.took_ms:g} ms"
    return "\n".join([line(names), line("─" * width for width in widths), *map(line, rows), tail])


def _cell(value: Any) -> str:
    text = _text(value)
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"


def _text(value: Any) -> str:
    """A value in words; null is nothing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _csv(answer: SqlAnswer) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(column["name"] for column in answer.columns)
    writer.writerows(map(_text, row) for row in answer.rows)
    return written.getvalue().removesuffix("\n")


def _json(answer: SqlAnswer) -> str:
    return json.dumps({"columns": answer.columns, "rows": answer.rows, "took_ms": answer.took_ms, "cut": answer.cut})


FORMS: Mapping[str, Callable[[SqlAnswer], str]] = {"table": _table, "csv": _csv, "json": _json}
