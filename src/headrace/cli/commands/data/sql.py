"""`headrace sql "select …"`: queries the running server, or only the lake if no server answers."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from headrace.client.protocol import ServerUnreachable, SqlAnswer
from headrace.client.sync_client import Client
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting, find_lake_folder

TIMEOUT_SECONDS, MAX_BYTES, MAX_ROWS = 60.0, 256 << 20, 100_000
CLIENT_TIMEOUT_SECONDS = 120.0  # others may be asked before
MAX_CELL_WIDTH = 60


@click.command()
@click.argument("query")
@setting_options("state", "http", "lake")
@click.option(
    "--limit", default=1000, show_default=True, type=click.IntRange(1, MAX_ROWS), help="Print at most this many rows."
)
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--json", "in_json", is_flag=True, help="The same as --format json.")
def sql(query: str, form: str, output: Path | None, in_json: bool, **flags: Any) -> None:
    """Run QUERY over bronze, silver, gold and, of a running app, live tables; "show tables" lists them."""
    answer = _run_query(query, flags)
    text = FORMATTERS["json" if in_json else form](answer)
    if output is None:
        click.echo(text, color=True)  # without color=True, escapes in values would be dropped in a pipe
    else:
        output.write_text(f"{text}\n")
    if answer.cut:
        click.echo(f"There is more: these are the first {len(answer.rows):,} rows. Give --limit.", err=True)


def _run_query(query: str, flags: dict[str, Any]) -> SqlAnswer:
    try:
        return Client(f"http://{flags['http']}", timeout_s=CLIENT_TIMEOUT_SECONDS).sql(query, limit=flags["limit"])
    except ServerUnreachable:
        lake = find_lake_folder(flags)
        if lake is None or not lake.is_dir():
            raise BadSetting(
                f"No server answers at {flags['http']}, and there is no lake{f' at {str(lake)!r}' if lake else ''}. "
                "Start `headrace up APP`, or give --http HOST:PORT or --lake DIR."
            ) from None
        click.echo(f"No server answers at {flags['http']}: this is the lake at {lake}, without live tables.", err=True)
        return _query_lake(query, lake, flags["limit"])


def _query_lake(query: str, lake: Path, limit: int) -> SqlAnswer:
    from headrace.sql.engine import SqlEngine
    from headrace.sql.worker_messages import SqlRequest

    return SqlAnswer(
        **json.loads(SqlEngine(lake, {}).run_query(SqlRequest(query, limit, MAX_BYTES, TIMEOUT_SECONDS), {}))
    )


def _format_table(answer: SqlAnswer) -> str:
    """Columns side by side, numbers right-aligned; control characters are escaped for a terminal."""
    names = [_format_cell(column["name"]) for column in answer.columns]
    rows = [[_format_cell(value) for value in row] for row in answer.rows]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    is_number = [
        all(type(row[index]) in {int, float, type(None)} for row in answer.rows) for index in range(len(names))
    ]

    def format_line(cells: Iterable[str]) -> str:
        aligned_cells = zip(cells, widths, is_number, strict=True)
        return "  ".join(
            cell.rjust(width) if is_right_aligned else cell.ljust(width)
            for cell, width, is_right_aligned in aligned_cells
        ).rstrip()

    summary = f"{len(rows):,} row{'s' if len(rows) != 1 else ''} in {answer.took_ms:g} ms"
    return "\n".join(
        [format_line(names), format_line("─" * width for width in widths), *map(format_line, rows), summary]
    )


def _format_cell(value: Any) -> str:
    text = _format_value(value)
    printable = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return printable if len(printable) <= MAX_CELL_WIDTH else f"{printable[: MAX_CELL_WIDTH - 1]}…"


def _format_value(value: Any) -> str:
    """A value as text; null is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _format_csv(answer: SqlAnswer) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(column["name"] for column in answer.columns)
    writer.writerows(map(_format_value, row) for row in answer.rows)
    return buffer.getvalue().removesuffix("\n")


def _format_json(answer: SqlAnswer) -> str:
    return json.dumps({"columns": answer.columns, "rows": answer.rows, "took_ms": answer.took_ms, "cut": answer.cut})


FORMATTERS: Mapping[str, Callable[[SqlAnswer], str]] = {
    "table": _format_table,
    "csv": _format_csv,
    "json": _format_json,
}
