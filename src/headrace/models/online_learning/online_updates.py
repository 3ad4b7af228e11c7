"""Lessons: what a model learns from, as the topic MODEL.lessons holds them, in pages.

fraud.lessons   [0 … 211] [212 … 213] [214 … 713] …        each number once, in one order for everybody

A lesson is a vector that was served with what came of it. A page is one record, so all of it is in the log or none.
Pages of one `epoch` are made from one table of outcomes; where that is made anew, so are the lessons, from 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

VERSION_PREFIX = "online-"  # of the versions of whoever learns
GENERATION_SIZE = 100_000  # lessons after which another learner begins


class OnlineUpdate(NamedTuple):
    """A served vector by the names of its columns, and the label that counted first."""

    event_id: str
    features: Mapping[str, Any]
    label: float


@dataclass(frozen=True)
class UpdatePage:
    """Lessons from number `first` on, of one batch of outcomes from place `place` on.

    `begins` are the offsets at which the generation before this page's, and this one, begin.
    """

    epoch: str
    first: int
    batch: int
    place: int
    begins: tuple[int, int]
    lessons: tuple[OnlineUpdate, ...]

    @property
    def end(self) -> int:
        """The number of the next lesson."""
        return self.first + len(self.lessons)


def encode_page(page: UpdatePage) -> bytes:
    """A page as its topic holds it."""
    return orjson.dumps({**vars(page), "lessons": list(map(list, page.lessons))})


def decode_page(value: bytes | None) -> UpdatePage | None:
    """What `encode_page` wrote; None for what is no page."""
    try:
        document = orjson.loads(value or b"")
        updates = tuple(OnlineUpdate(*update) for update in document.pop("lessons"))
        return UpdatePage(**{**document, "begins": tuple(document["begins"])}, lessons=updates)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
