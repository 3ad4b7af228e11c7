"""Declarations as a notebook shows them: a title, a line, a table. Whatever is in it is text, never markup."""

from collections.abc import Iterable, Sequence
from html import escape

TABLE = '<table style="text-align:left"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def shown(title: str, line: str, head: Sequence[str] = (), rows: Iterable[Sequence[object]] = ()) -> str:
    """HTML of a title, a line and, where there is a head, a table.

    >>> shown("payments", "a stream of <b>", ["column"], [["card"]])[:65]
    '<div><strong>payments</strong> <span>a stream of &lt;b&gt;</span>'
    """
    table = TABLE.format(head=_cells("th", head), rows="".join(f"<tr>{_cells('td', row)}</tr>" for row in rows))
    return f"<div><strong>{escape(title)}</strong> <span>{escape(line)}</span>{table if head else ''}</div>"


def _cells(tag: str, values: Sequence[object]) -> str:
    left = ' style="text-align:left"'
    return "".join(f"<{tag}{left}>{escape('' if value is None else str(value))}</{tag}>" for value in values)
