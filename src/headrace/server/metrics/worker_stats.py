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

from headrace.server.metrics.server_counts import ServerCounts

WRITE_SECONDS, WRITES_PER_CHECK = 0.1, 5
SILENT_AFTER_S = 5.0


@dataclass(frozen=True)
class ServerWorker:
    """Which of how many workers this process is, and where they leave word for each other."""

    number: int
    worker_count: int
    folder: Path

    @property
    def is_first(self) -> bool:
        return self.number == 1


class ReadinessProblems(NamedTuple):
    """What is missing, a sentence each: what keeps a process from answering, and what keeps it from being fresh."""

    answering: list[str]
    freshness: list[str]

    @property
    def sentences(self) -> list[str]:
        return [*self.answering, *self.freshness]


class WorkerStats:
    """What all workers have counted, and what any of them misses; one alone asks nobody."""

    def __init__(
        self,
        worker: ServerWorker | None,
        get_own_counts: Callable[[], ServerCounts],
        get_own_problems: Callable[[], Awaitable[ReadinessProblems]],
    ) -> None:
        self._worker, self._get_own_counts, self._get_own_problems = worker, get_own_counts, get_own_problems
        self._own_problems = ReadinessProblems(["it has just begun"], [])
        self._write_lock = Lock()

    async def publish(self) -> None:
        """Leave word until cancelled."""
        writes = 0
        while self._worker is not None:
            if writes % WRITES_PER_CHECK == 0:
                self._own_problems = await self._get_own_problems()
            self._write_snapshot(self._worker)
            writes += 1
            await asyncio.sleep(WRITE_SECONDS)

    def total_counts(self) -> ServerCounts:
        """What all of them have counted."""
        if self._worker is None:
            return self._get_own_counts()
        self._write_snapshot(self._worker)
        return ServerCounts.merge(
            [ServerCounts.from_json(snapshot["counted"]) for _, snapshot in self._read_snapshots(self._worker)]
        )

    async def wait_until_ready(self, stop: Event) -> None:
        """Wait while this process misses something and another does not: that one answers better."""
        while self._worker is not None and not stop.is_set() and (await self._get_own_problems()).sentences:
            peer_problems = [
                problems for number, problems in self._problems_by_worker(self._worker) if number != self._worker.number
            ]
            if all(of_peer.sentences for of_peer in peer_problems):
                return
            await asyncio.sleep(WRITE_SECONDS)

    async def readiness_problems(self) -> ReadinessProblems:
        """What any of them misses, a sentence each."""
        if self._worker is None:
            return await self._get_own_problems()
        problems_by_worker = self._problems_by_worker(self._worker)
        return ReadinessProblems(
            [
                f"worker {number}: {sentence}"
                for number, problems in problems_by_worker
                for sentence in problems.answering
            ],
            [
                f"worker {number}: {sentence}"
                for number, missing in problems_by_worker
                for sentence in missing.freshness
            ],
        )

    def _problems_by_worker(self, worker: ServerWorker) -> list[tuple[int, ReadinessProblems]]:
        """What each worker misses, by its number."""
        latest = dict(sorted(self._read_snapshots(worker), key=lambda numbered_snapshot: numbered_snapshot[1]["at"]))
        return [(number, _problems_of(latest.get(number))) for number in range(1, worker.worker_count + 1)]

    def _write_snapshot(self, worker: ServerWorker) -> None:
        """In one step: who reads meanwhile reads what was there before; one at a time, so that nothing goes back."""
        file = worker.folder / f"{worker.number}-{os.getpid()}.json"
        temp_file = file.with_suffix(".new")
        with self._write_lock:
            snapshot = {
                "at": time.time(),
                "missing": list(self._own_problems),
                "counted": self._get_own_counts().to_json(),
            }
            temp_file.write_bytes(orjson.dumps(snapshot))
            temp_file.replace(file)

    def _read_snapshots(self, worker: ServerWorker) -> list[tuple[int, dict[str, Any]]]:
        """The last word of each process, with the number of its worker."""
        return [
            (int(file.name.partition("-")[0]), orjson.loads(file.read_bytes())) for file in worker.folder.glob("*.json")
        ]


def _problems_of(snapshot: dict[str, Any] | None) -> ReadinessProblems:
    if snapshot is None or time.time() - snapshot["at"] > SILENT_AFTER_S:
        return ReadinessProblems(["it is being started"], [])
    return ReadinessProblems(*snapshot["missing"])
