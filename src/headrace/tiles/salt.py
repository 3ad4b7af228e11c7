"""The salted part an event is folded into: it depends on its id alone, the same in Spark and here."""

from zlib import crc32


def salt_bucket(event_id: str, salt: int) -> int:
    """The number of the part, from the text of an id.

    >>> [salt_bucket(event_id, 8) for event_id in ("p1", "p2", "p3")], salt_bucket("p1", 1)
    ([3, 1, 7], 0)
    """
    return crc32(event_id.encode()) % salt if salt > 1 else 0
