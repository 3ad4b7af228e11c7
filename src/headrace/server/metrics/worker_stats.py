"""The worker processes of one server: each writes its counts and problems to a file, and any of them reports for all.

    worker 1 ──▶ 1-4711.json ──┐
    worker 2 ──▶ 2-4712.json ──┼──▶ the worker that is asked: the sum of all, dead ones included
    worker 2 ──▶ 2-4890.json ──┘    ready once the last of each number is, and has written lately

The counts of a file only grow, so a sum never decreases; what a worker counted after its last write is lost with it.
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
    """The number of this worker process, the number of workers, and their shared folder."""

    number: int
    worker_count: int
    folder: Path

    @property
    def is_first(self) -> bool:
        return self.number == 1


class ReadinessProblems(NamedTuple):
    """Readiness problems, a sentence each: what keeps a process from answering, and from being fresh."""

    answering: list[str]
    freshness: list[str]

    @property
    def sentences(self) -> list[str]:
        return [*self.answering, *self.freshness]


class WorkerStats:
    """The counts and the problems of all workers; a single worker reads no files."""

    def __init__(
        self,
        worker: ServerWorker | None,
        get_own_counts: Callable[[], ServerCounts],
        get_own_problems: Callable[[], Awaitable[ReadinessProblems]],
    ) -> None:
        self._worker, self._get_own_counts, self._get_own_problems = worker, get_own_counts, get_own_problems
        self._own_problems = ReadinessProblems(["it has just started"], [])
        self._write_lock = Lock()

    async def publish(self) -> None:
        """Write a snapshot periodically, until cancelled."""
        writes = 0
        while self._worker is not None:
            if writes % WRITES_PER_CHECK == 0:
                self._own_problems = await self._get_own_problems()
            self._write_snapshot(self._worker)
            writes += 1
            await asyncio.sleep(WRITE_SECONDS)

    def total_counts(self) -> ServerCounts:
        """The counts of all workers."""
        if self._worker is None:
            return self._get_own_counts()
        self._write_snapshot(self._worker)
        return ServerCounts.merge(
            [ServerCounts.from_json(snapshot["counted"]) for _, snapshot in self._read_snapshots(self._worker)]
        )

    async def wait_until_ready(self, stop: Event) -> None:
        """Wait while this worker has problems and another has none: that one answers better."""
        while self._worker is not None and not stop.is_set() and (await self._get_own_problems()).sentences:
            peer_problems = [
                problems for number, problems in self._problems_by_worker(self._worker) if number != self._worker.number
            ]
            if all(of_peer.sentences for of_peer in peer_problems):
                return
            await asyncio.sleep(WRITE_SECONDS)

    async def readiness_problems(self) -> ReadinessProblems:
        """The problems of all workers, a sentence each."""
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
        """The problems of each worker, by its number."""
        latest = dict(sorted(self._read_snapshots(worker), key=lambda numbered_snapshot: numbered_snapshot[1]["at"]))
        return [(number, _problems_of(latest.get(number))) for number in range(1, worker.worker_count + 1)]

    def _write_snapshot(self, worker: ServerWorker) -> None:
        """Replace the snapshot atomically for readers, and one at a time, so that counts never decrease."""
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
        """The last snapshot of each process, with the number of its worker."""
        return [
            (int(file.name.partition("-")[0]), orjson.loads(file.read_bytes())) for file in worker.folder.glob("*.json")
        ]


def _problems_of(snapshot: dict[str, Any] | None) -> ReadinessProblems:
    if snapshot is None or time.time() - snapshot["at"] > SILENT_AFTER_S:
        return ReadinessProblems(["it is being started"], [])
    return ReadinessProblems(*snapshot["missing"])
