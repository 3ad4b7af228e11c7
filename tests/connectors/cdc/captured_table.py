"""A table that Kafka Connect captures, and its published changes."""

import os
import signal
import threading
from pathlib import Path
from typing import Any, Self

import orjson

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.connectors.cdc.capture_part import run_capture
from headrace.declare.app import App
from headrace.embedded_servers.kafka_connect import KafkaConnectFailed
from headrace.errors import HeadraceError
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from tests.waiting import wait_until

ROW = "id bigint, country string, credit double, since timestamp"
TABLE = "CREATE TABLE {0} (id bigint PRIMARY KEY, country text, credit double precision, since timestamptz)"
WHOLE = "ALTER TABLE {0} REPLICA IDENTITY FULL"
LIMIT_S = 60


def made_table(postgres: OwnPostgres, name: str) -> None:
    """An empty table that can be captured."""
    postgres.ask(TABLE.format(name))
    postgres.ask(WHOLE.format(name))


def changes_of(postgres: OwnPostgres, name: str) -> hr.Changes:
    """The changes of a table of that name, in an address that no test writes down."""
    os.environ["CAPTURED_DB"] = postgres.url
    return hr.Changes(name, from_="env:CAPTURED_DB", table=f"public.{name}", key="id", schema=ROW)


class Capturing:
    """Captures a table in a thread, as `headrace run APP connect` does in a process."""

    def __init__(self, changes: hr.Changes, broker: str, state: Path) -> None:
        self.changes, self.broker, self.state = changes, broker, state
        self.app = App(f"shop_{changes.name}", (changes,), ())
        self.failure: HeadraceError | None = None
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stop.set()
        self._thread.join(LIMIT_S)

    def kill(self) -> None:
        """kill -9 of Connect."""
        pid = orjson.loads((self.state / "connect" / "connect.pid").read_bytes())["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.failure, LIMIT_S, "whoever captures to see that Connect is gone")
        assert isinstance(self.failure, KafkaConnectFailed)

    def count(self) -> int:
        """How many records are in the raw topic."""
        try:
            return sum(OffsetClient(self.broker).topic_end_offsets([self.changes.name]).values())
        except HeadraceError:  # not made yet
            return 0

    def told(self) -> list[dict[str, Any]]:
        """Every envelope in the raw topic."""
        offsets = OffsetClient(self.broker)
        try:
            ends = offsets.topic_end_offsets([self.changes.name])
        except HeadraceError:  # not made yet
            return []
        records = read_offset_range(self.broker, offsets.topic_start_offsets([self.changes.name]), ends)
        return [orjson.loads(record.value or b"null") for record in records]

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        """The published changes, once there are enough of them."""
        wait_until(lambda: self.failure or len(self.told()) >= count, LIMIT_S, f"{count} changes", self._said)
        assert self.failure is None, self.failure
        return self.told()

    def _run(self) -> None:
        try:
            run_capture(self.app, self.broker, self.state, self._stop)
        except HeadraceError as failure:
            self.failure = failure

    def _said(self) -> str:
        log = self.state / "connect" / "connect.log"
        return log.read_text()[-5000:] if log.exists() else "Connect has not begun"


def rows_left(changes: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The rows that exist after all changes."""
    rows: dict[int, dict[str, Any]] = {}
    for one in changes:
        if one["op"] == "d":
            rows.pop(one["before"]["id"], None)
        else:
            rows[one["after"]["id"]] = one["after"]
    return rows
