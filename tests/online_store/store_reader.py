"""Reads a shared store directly, for tests."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import headrace as hr
from headrace.online_store.feature_lookup import LookupResult
from headrace.online_store.registry import create_store
from headrace.tiles.tile import Entity

Answer = TypeVar("Answer")


class Reads:
    """A store and an event loop to read it in."""

    def __init__(self, url: str, view: hr.View) -> None:
        self.view, self.url = view, url
        self.store = create_store(url, [view])
        self._loop = asyncio.new_event_loop()

    def read(self, cards: Sequence[str], at_us: int) -> list[LookupResult]:
        return self.run(self.store.read(self.view.name, [(card,) for card in cards], at_us))

    def entities(self, most: int) -> list[Entity]:
        return self.run(self.store.entities(self.view.name, most))

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self.run(self.store.close())
        self._loop.close()
