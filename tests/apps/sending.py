"""Sends traffic to a running app through the kind of source that it declares."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from headrace.declare.app import App
from headrace.kafka.producer.producer import Producer
from headrace.kafka.schema_registry.record_encoder import create_framer
from tests.apps.oracle import clean_events
from tests.apps.places import Places
from tests.apps.traffic import BURST_US, Traffic, canonical
from tests.oracle.streams import SECOND_US, Sent
from tests.running import Running

Timed = Sequence[tuple[int, bytes, Sent]]


class Sender:
    """Brings the bursts of an app's traffic to it."""

    def __init__(self, app: App, traffic: Traffic, places: Places, running: Running) -> None:
        self.app, self.traffic, self.places, self.running = app, traffic, places, running
        self.names = traffic.names

    def send(self, count: int) -> None:
        """One burst to the main stream and, beside it, to the other one; then the outcomes of events."""
        self.traffic.bursts += 1
        has_other = self.names.other in [stream.name for stream in self.app.streams]
        others = self.traffic.burst(count // 2, is_other=True) if has_other else []
        burst = self.traffic.burst(count)
        side = threading.Thread(target=self._send_other, args=(others,))
        side.start()
        source = self.traffic.row["source"]
        if source == "captured":
            self._change_rows(count)
        else:
            {"nats": self._by_nats, "outbox": self._by_outbox, "history": self._by_replay}.get(source, self._by_kafka)(
                burst
            )
        side.join()
        self._send_verdicts()

    def _by_kafka(self, timed: Timed) -> None:
        stream = self.app.stream(self.names.main)
        frame = create_framer(stream) if stream.encoding is not None else None
        with Producer(self.running.broker) as producer:

            def send(value: bytes, sent: Sent) -> None:
                written = value if frame is None or sent.flaw == "not-framed" else frame(value)
                self.traffic.meant[canonical(written)] = sent
                producer.send(self.names.main, written, key=str(sent.event[self.names.key]))

            paced(timed, send)

    def _by_nats(self, timed: Timed) -> None:
        assert self.places.nats is not None
        self.places.nats.publish("zoo", [value for _, value, _ in timed])

    def _by_outbox(self, timed: Timed) -> None:
        assert self.places.postgres is not None
        statement = "INSERT INTO zoo_outbox (stream, key, payload) VALUES (%s, %s, %s)"
        with psycopg.connect(self.places.postgres.url, autocommit=True) as connection:

            def send(value: bytes, sent: Sent) -> None:
                if sent.flaw != "not-json":
                    key = str(sent.event[self.names.key])
                    connection.execute(statement, (self.names.main, key, value.decode()))

            paced(timed, send)

    def _by_replay(self, timed: Timed) -> None:
        self._replay(self.names.main, [value for _, value, sent in timed if sent.flaw != "not-json"])

    def _replay(self, stream: str, values: Sequence[bytes]) -> None:
        file = self.places.folder / f"{stream}.jsonl"
        file.write_bytes(b"\n".join(values) + b"\n")
        command = [sys.executable, "-m", "headrace", "replay", str(self.running.app), stream, str(file)]
        flags = ["--speed", "max", "--broker", self.running.broker]
        said = subprocess.run([*command, *flags], capture_output=True, text=True, check=False, timeout=300)
        assert said.returncode == 0, said.stderr + said.stdout

    def _send_other(self, timed: Timed) -> None:
        if self.traffic.is_history:
            self._replay(self.names.other, [value for _, value, sent in timed if sent.flaw != "not-json"])
            return
        with Producer(self.running.broker) as producer:
            paced(
                timed, lambda value, sent: producer.send(self.names.other, value, key=str(sent.event[self.names.key]))
            )

    def _change_rows(self, count: int) -> None:
        """Inserts, updates and deletes, a transaction each, some of them rolled back."""
        assert self.places.postgres is not None
        dice, pause_s = self.traffic.dice, BURST_US / SECOND_US / count
        with psycopg.connect(self.places.postgres.url) as connection:
            for _ in range(count):
                connection.execute(*self._change(self._row(), dice))
                (connection.rollback if dice.random() < 0.1 else connection.commit)()
                time.sleep(pause_s)

    def _row(self) -> dict[str, Any]:
        row = {name: one for name, one in self.traffic.values(0).items() if name != "at"}
        row["since"] = None if row["since"] is None else row["since"] / SECOND_US
        return row

    def _change(self, row: dict[str, Any], dice: random.Random) -> tuple[Any, dict[str, Any]]:
        names = self.names
        columns = [name for name in row if name != "since"]
        if self.traffic.rows > 5 and dice.random() < 0.15:
            return f'DELETE FROM zoo_table WHERE "{names.id}" = %(gone)s', {"gone": self._known(dice)}
        if self.traffic.rows > 5 and dice.random() < 0.35:
            told = ", ".join(f'"{name}" = %({name})s' for name in columns if name != names.id)
            return f'UPDATE zoo_table SET {told} WHERE "{names.id}" = %({names.id})s', row | {
                names.id: self._known(dice)
            }
        self.traffic.rows += 1
        row |= {names.id: f"r{self.traffic.rows}"}
        listed = ", ".join(f'"{name}"' for name in columns)
        values = ", ".join(f"%({name})s" for name in columns)
        return f"INSERT INTO zoo_table ({listed}, since) VALUES ({values}, to_timestamp(%(since)s))", row

    def _known(self, dice: random.Random) -> str:
        return f"r{dice.randint(1, self.traffic.rows)}"

    def _send_verdicts(self) -> None:
        """A label for every second event that is known by now."""
        model = next(iter(self.app.models), None)
        if model is None or model.labels is None:
            return
        stream, own_id = model.labels.stream, model.labels.stream.id
        with Producer(self.running.broker) as producer:
            for number, event in enumerate(clean_events(self.running.broker, model.stream)):
                told_us = (
                    event[model.stream.arrival or model.stream.time]
                    if self.traffic.is_history
                    else time.time_ns() // 1000
                )
                verdict = {own_id: event[model.stream.id], "good": number % 3 == 0, "told_at": told_us // 1000}
                if number % 2:
                    producer.send(stream.name, json.dumps(verdict).encode(), key=str(event[model.stream.id]))


def paced(timed: Timed, send: Callable[[bytes, Sent], None]) -> None:
    """Send each record when it is due."""
    began = time.monotonic()
    for due_us, value, sent in timed:
        left_s = due_us / SECOND_US - (time.monotonic() - began)
        if left_s > 0:
            time.sleep(left_s)
        send(value, sent)
