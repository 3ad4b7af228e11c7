"""The alerts topic: the state of each alert and each silence under its key, so that a restart goes on from them."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.declare.alert import Alert
from headrace.errors import HeadraceError
from headrace.log.follow import Follower
from headrace.log.latest import ensure_latest_topic
from headrace.log.produce import Producer
from headrace.log.records import Record
from headrace.watch.phases import Phase, State
from headrace.watch.tell import finite, when

TOPIC = "headrace.alerts"
READ_SECONDS = 120.0
LOGGER = logging.getLogger("headrace.alerts")


class NotRead(HeadraceError):
    """The alerts topic could not be read to its end."""


@dataclass(frozen=True)
class Kept:
    """What the topic says of an alert: its state, and what it was about when that was written."""

    state: State
    said: dict[str, Any]


class Board:
    """The latest word on each alert and each silence; one thread applies, any thread reads."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.silences: dict[str, int] = {}

    def apply(self, records: Iterable[Record]) -> None:
        for record in records:
            try:
                self._hear(record)
            except (ValueError, KeyError, TypeError):
                LOGGER.warning("%s is no word on an alert; it is passed over", record.place)

    def firing(self) -> dict[str, int]:
        """The alerts that fire now, and since when."""
        kept = self.kept.copy()
        return {name: one.state.since_us for name, one in kept.items() if one.state.phase is Phase.FIRING}

    def _hear(self, record: Record) -> None:
        kind, _, name = (record.key or b"").decode().partition(" ")
        said = None if record.value is None else orjson.loads(record.value)
        if kind == "silence":
            self._hush(name, said)
        elif kind == "alert" and said is not None:
            self.kept[name] = Kept(_state_of(said["state"]), said)

    def _hush(self, name: str, said: Any) -> None:
        if said is None:
            self.silences.pop(name, None)
        else:
            self.silences[name] = int(said["until_us"])


def write_state(producer: Producer, alert: Alert, state: State, said: str) -> None:
    """The state of an alert, in words for whoever reads the topic, and whole for the next start."""
    word = {
        "name": alert.name,
        "group": alert.group,
        "status": state.phase,
        "severity": alert.severity,
        "on": alert.on.text,
        "value": finite(state.value),
        "limit": alert.limit,
        "said": said,
        "since": when(state.since_us),
        "why": alert.why,
        "run": alert.run,
        "state": {
            "phase": state.phase,
            "since_us": state.since_us,
            "fired_us": state.fired_us,
            "told": state.told,
        },
    }
    producer.send(TOPIC, orjson.dumps(word), key=f"alert {alert.name}")


def write_silence(producer: Producer, name: str, until_us: int | None) -> None:
    """Silence an alert until a time; None ends a silence."""
    word = None if until_us is None else orjson.dumps({"until_us": until_us, "until": when(until_us)})
    producer.send(TOPIC, word, key=f"silence {name}")


def read_board(broker: str) -> Board:
    """All that the topic says now."""
    ensure_latest_topic(broker, TOPIC)
    board = Board()
    with Follower(broker, [TOPIC], board.apply) as follower:
        if not follower.wait_until_caught_up(READ_SECONDS):
            raise NotRead(f"Topic {TOPIC!r} was not read within {READ_SECONDS:g} s: {follower.trouble}. Try again.")
    return board


def _state_of(written: dict[str, Any]) -> State:
    """A state as it was left; whatever came of values meanwhile, the wait for one begins now."""
    return State(
        since_us=int(written["since_us"]),
        heard_us=time.time_ns() // 1000,
        phase=Phase(written["phase"]),
        fired_us=tuple(map(int, written["fired_us"])),
        told=Phase(written["told"]),
    )
