"""The queries in Flink's SQL: one file each; its first line names the key of rows that replace earlier ones."""

from pathlib import Path

QUERIES = Path(__file__).with_name("queries")
KEY = "-- key: "


def text_of(query: str) -> str:
    """The text of a query."""
    return (QUERIES / f"{query}.sql").read_text()


def key_of(text: str) -> tuple[str, ...]:
    """The columns of its answer's key.

    >>> key_of("-- key: channel, day\\nSELECT …")
    ('channel', 'day')
    """
    first, _, _ = text.partition("\n")
    return tuple(first.removeprefix(KEY).split(", ")) if first.startswith(KEY) else ()
