"""Online updates: what a model learns from, in pages of the topic MODEL.lessons.

fraud.lessons   [0 … 211] [212 … 213] [214 … 713] …        each number once, in one order for all readers

An update is a served vector with its outcome. A page is one record, so the log has all of it or nothing.
Pages of one `epoch` come from one table of outcomes; when that is recreated, updates start again from 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

VERSION_PREFIX = "online-"  # of the versions of online models
GENERATION_SIZE = 100_000  # updates after which another generation starts


class OnlineUpdate(NamedTuple):
    """A served vector by column name, and the label that counted first."""

    event_id: str
    features: Mapping[str, Any]
    label: float


@dataclass(frozen=True)
class UpdatePage:
    """Updates from number `first` on, from one batch of outcomes, starting at index `place` of it.

    `begins` are the offsets at which the previous generation and this one start.
    """

    epoch: str
    first: int
    batch: int
    place: int
    begins: tuple[int, int]
    lessons: tuple[OnlineUpdate, ...]

    @property
    def end(self) -> int:
        """The number of the next update."""
        return self.first + len(self.lessons)


def encode_page(page: UpdatePage) -> bytes:
    """Encode a page as a record value."""
    return orjson.dumps({**vars(page), "lessons": list(map(list, page.lessons))})


def decode_page(value: bytes | None) -> UpdatePage | None:
    """Decode what `encode_page` wrote; None for anything else."""
    try:
        document = orjson.loads(value or b"")
        updates = tuple(OnlineUpdate(*update) for update in document.pop("lessons"))
        return UpdatePage(**{**document, "begins": tuple(document["begins"])}, lessons=updates)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
