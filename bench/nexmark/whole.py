"""A query as a Headrace app computes it: raw records through the gate, then a derived stream or an operator.

bids ──gate──▶ bids.clean ──q12──▶ q12
├ the gate's first batch ─────────────── the last row of the answer ┤
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import orjson

from bench.errors import BenchFailed
from bench.nexmark.catalogue import Query
from bench.nexmark.drains import Drained, Full
from bench.nexmark.log import read
from bench.nexmark.oracle import answers
from bench.nexmark.rows import answered, difference, ended_by
from bench.parts import running
from bench.topics import last_append_s, length
from bench.waiting import wait_for
from headrace.embedded_servers.child_process import ChildProcess
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord

DECLARED = ("q1", "q11", "q12")  # of bench.nexmark.app: a derived stream, sessions, windows
TEXT = "from bench.nexmark.app import bids, {query}\n"
NAMES = {"window_start": "starts", "window_end": "ends", "happened_ms": "happened"}
LIMIT_SECONDS = 300.0
PARTS = ("stream", "operate")


def answer(full: Full, query: Query, folder: Path) -> Drained:
    """How long a whole app takes, and what is wrong with its answer."""
    columns, rows = answers(full.events, query.name)
    wanted = sum(ended_by(full.until_ms, columns)(row) for row in rows)
    try:
        seconds = _seconds(full, query, folder / f"app-{query.name}", wanted)
        found = answered(named(read(full.broker, query.name)), columns)
    except BenchFailed as why:
        return Drained(None, str(why))
    return Drained(seconds, difference(found, rows, columns, full.until_ms))


def named(records: Iterable[ConsumerRecord]) -> Iterator[ConsumerRecord]:
    """Rows by their own id, with the columns an oracle calls so: what was written twice is one row."""
    for record in records:
        row = {NAMES.get(name, name): value for name, value in orjson.loads(record.value or b"{}").items()}
        yield record._replace(key=str(row.get("id", row.get("number"))).encode(), value=orjson.dumps(row))


def _seconds(full: Full, query: Query, state: Path, wanted: int) -> float:
    """From the gate's first batch until all rows are there."""
    state.mkdir()
    app = state / "app.py"
    app.write_text(TEXT.format(query=query.name))
    offsets = OffsetClient(full.broker)
    with ExitStack() as stack:
        parts = [stack.enter_context(_part(name, app, full.broker, state)) for name in PARTS]
        first = state / "checkpoints" / "bids" / "gate" / "offsets" / "0"
        wait_for(lambda: _alive(parts, state) and first.exists(), LIMIT_SECONDS, "the gate's first batch")
        wait_for(
            lambda: _alive(parts, state) and length(offsets, query.name) >= wanted,
            LIMIT_SECONDS,
            f"{wanted} rows of {query.name}",
            0.2,
        )
        return last_append_s(full.broker, query.name) - first.stat().st_mtime


def _part(name: str, app: Path, broker: str, state: Path) -> AbstractContextManager[ChildProcess]:
    command = [sys.executable, "-m", "headrace", "run", str(app), name, "--broker", broker]
    flags = ["--state", str(state), "--lake", "off", "--take-over"]  # of the query before, on the same broker
    return running([*command, *flags], state / f"{name}.out")


def _alive(parts: Sequence[ChildProcess], state: Path) -> bool:
    for name, part in zip(PARTS, parts, strict=True):
        if not part.is_alive():
            said = " ".join((state / f"{name}.out").read_text().split())
            raise BenchFailed(f"the app's part {name} ended by itself: {said[-500:]}")
    return True
