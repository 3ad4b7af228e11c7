"""The worker processes of one server: each leaves its counts and what it misses in a file, any of them speaks for all.

    worker 1 ──▶ 1-4711.json ──┐
    worker 2 ──▶ 2-4712.json ──┼──▶ whoever is asked: the sum of all, those that have died included
    worker 2 ──▶ 2-4890.json ──┘    ready once the last of each number is, and has written lately

A file only grows in what it counts, so a sum never goes back; what a worker counted after it last wrote dies with it.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple

import orjson

from headrace.serve.counted import Counted

WRITE_SECONDS, WRITES_A_LOOK = 0.1, 5
SILENT_AFTER_S = 5.0


@dataclass(frozen=True)
class Worker:
    """Which of how many workers this process is, and where they leave word for each other."""

    number: int
    of: int
    folder: Path

    @property
    def is_first(self) -> bool:
        return self.number == 1


class Missing(NamedTuple):
    """What is missing, a sentence each: what keeps a process from answering, and what keeps it from being fresh."""

    to_answer: list[str]
    to_be_fresh: list[str]

    @property
    def sentences(self) -> list[str]:
        return [*self.to_answer, *self.to_be_fresh]


class Colleagues:
    """What all workers have counted, and what any of them misses; one alone asks nobody."""

    def __init__(
        self, worker: Worker | None, count: Callable[[], Counted], miss: Callable[[], Awaitable[Missing]]
    ) -> None:
        self._worker, self._count, self._miss = worker, count, miss
        self._missing = Missing(["it has just begun"], [])
        self._writing = Lock()

    async def tell(self) -> None:
        """Leave word until cancelled."""
        writes = 0
        while self._worker is not None:
            if writes % WRITES_A_LOOK == 0:
                self._missing = await self._miss()
            self._write(self._worker)
            writes += 1
            await asyncio.sleep(WRITE_SECONDS)

    def counted(self) -> Counted:
        """What all of them have counted."""
        if self._worker is None:
            return self._count()
        self._write(self._worker)
        return Counted.together([Counted.read(said["counted"]) for _, said in self._said(self._worker)])

    async def hold_back(self, stop: Event) -> None:
        """Wait while this process misses something and another does not: that one answers better."""
        while self._worker is not None and not stop.is_set() and (await self._miss()).sentences:
            others = [missing for number, missing in self._missing_by(self._worker) if number != self._worker.number]
            if all(one.sentences for one in others):
                return
            await asyncio.sleep(WRITE_SECONDS)

    async def missing(self) -> Missing:
        """What any of them misses, a sentence each."""
        if self._worker is None:
            return await self._miss()
        by_number = self._missing_by(self._worker)
        return Missing(
            [f"worker {number}: {sentence}" for number, missing in by_number for sentence in missing.to_answer],
            [f"worker {number}: {sentence}" for number, missing in by_number for sentence in missing.to_be_fresh],
        )

    def _missing_by(self, worker: Worker) -> list[tuple[int, Missing]]:
        """What each worker misses, by its number."""
        latest = dict(sorted(self._said(worker), key=lambda one: one[1]["at"]))
        return [(number, _missing_of(latest.get(number))) for number in range(1, worker.of + 1)]

    def _write(self, worker: Worker) -> None:
        """In one step: who reads meanwhile reads what was there before; one at a time, so that nothing goes back."""
        file = worker.folder / f"{worker.number}-{os.getpid()}.json"
        new = file.with_suffix(".new")
        with self._writing:
            said = {"at": time.time(), "missing": list(self._missing), "counted": self._count().written()}
            new.write_bytes(orjson.dumps(said))
            new.replace(file)

    def _said(self, worker: Worker) -> list[tuple[int, dict[str, Any]]]:
        """The last word of each process, with the number of its worker."""
        return [
            (int(file.name.partition("-")[0]), orjson.loads(file.read_bytes())) for file in worker.folder.glob("*.json")
        ]


def _missing_of(said: dict[str, Any] | None) -> Missing:
    if said is None or time.time() - said["at"] > SILENT_AFTER_S:
        return Missing(["it is being started"], [])
    return Missing(*said["missing"])
