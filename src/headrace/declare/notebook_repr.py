"""Notebook representation of declarations: a title, a line, a table. Values are escaped, never markup."""

from collections.abc import Iterable, Sequence
from html import escape

TABLE_HTML = '<table style="text-align:left"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def render_html(title: str, summary: str, columns: Sequence[str] = (), rows: Iterable[Sequence[object]] = ()) -> str:
    """HTML of a title, a line and, if there are columns, a table.

    >>> render_html("payments", "a stream of <b>", ["column"], [["card"]])[:65]
    '<div><strong>payments</strong> <span>a stream of &lt;b&gt;</span>'
    """
    table = TABLE_HTML.format(
        head=_render_cells("th", columns), rows="".join(f"<tr>{_render_cells('td', row)}</tr>" for row in rows)
    )
    return f"<div><strong>{escape(title)}</strong> <span>{escape(summary)}</span>{table if columns else ''}</div>"


def _render_cells(tag: str, values: Sequence[object]) -> str:
    style = ' style="text-align:left"'
    return "".join(f"<{tag}{style}>{escape('' if value is None else str(value))}</{tag}>" for value in values)
