"""The queries in Flink's SQL: a file each; its first line names the key where a later row replaces an earlier one."""

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
