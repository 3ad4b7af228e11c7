"""The traffic of the archived state folder's app, and the app's expected output, by loops over that traffic."""

import json
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("app.py")
HOUSES = [f"h{number}" for number in range(8)]
LIMIT_S = 900
Event = dict[str, Any]


def readings(batch: int, count: int) -> list[Event]:
    """Readings of now, the same for the same batch but for their times; some late, some broken."""
    chance, now_ms = random.Random(batch), time.time_ns() // 1_000_000
    return [_reading(chance, f"b{batch}-{number}", now_ms + number) for number in range(count)]


def _reading(chance: random.Random, reading_id: str, at_ms: int) -> Event:
    late_ms = chance.choice([0] * 24 + [600_000])
    degrees = chance.choice([-100.0] + [float(chance.randrange(45)) for _ in range(24)])
    house, kind = chance.choice(HOUSES), chance.choice(["air", "soil", "leaf"])
    return {
        "reading_id": reading_id,
        "house": house,
        "kind": kind,
        "degrees": degrees,
        "at": at_ms - late_ms,
        "late": bool(late_ms),
    }


def send(broker: str, events: Iterable[Event]) -> None:
    """Send readings, each seventh twice, and a label for each fifth."""
    with Producer(broker) as producer:
        for number, event in enumerate(events):
            record = {name: value for name, value in event.items() if name != "late"}
            for _ in range(1 + (number % 7 == 0)):
                producer.send("readings", record, key=event["house"])
            if number % 5 == 0:
                fault = {"reading_id": event["reading_id"], "broken": event["degrees"] > 20, "at": record["at"] + 1}
                producer.send("faults", fault, key=event["reading_id"])


def is_clean(event: Event) -> bool:
    return event["degrees"] > -80 and not event["late"]


def expected_houses(sent: Iterable[Event]) -> dict[str, dict[str, Any]]:
    """The lifetime features of each house."""
    by_house: dict[str, list[Event]] = defaultdict(list)
    for event in filter(is_clean, sent):
        by_house[event["house"]].append(event)
    return {
        house: {
            "readings_forever": len(events),
            "total_forever": sum(event["degrees"] for event in events),
            "warmest_forever": max(event["degrees"] for event in events),
            "kinds_forever": len({event["kind"] for event in events}),
            "last_kind_forever": max(events, key=lambda event: (event["at"], event["reading_id"]))["kind"],
        }
        for house, events in by_house.items()
    }


def served(running: Running, view: str) -> dict[str, dict[str, Any]]:
    """The lifetime features that the server answers."""
    rows = running.features(view, HOUSES)
    return {
        row["house"]: {name: value for name, value in row["values"].items() if name.endswith("forever")} for row in rows
    }


def newest(broker: str, topic: str, of: str, column: str) -> dict[str, Any]:
    """The greatest value of a column for each entity in the clean log of a derived stream."""
    offsets, found = OffsetClient(broker), dict[str, Any]()
    for record in read_offset_range(broker, offsets.topic_start_offsets([topic]), offsets.topic_end_offsets([topic])):
        row = json.loads(record.value)
        found[row[of]] = max(row[column], found.get(row[of], row[column]))
    return found


def landed(running: Running, table: str) -> int:
    """How many different readings a table of the lake holds."""
    folder = running.state / "lake" / table
    if not (folder / "_delta_log").exists():
        return 0
    rows = DeltaTable(folder).to_pyarrow_table(columns=["reading_id"])
    return len(rows["reading_id"].unique())


def wait_until_right(running: Running, sent: list[Event]) -> None:
    """Wait until views, windows and the lake have the expected values for everything sent."""
    houses = expected_houses(sent)
    warm = _count(sent, lambda event: event["degrees"] > 20)
    counts = {house: values["readings_forever"] for house, values in houses.items()}
    _wait(running, "the view of readings", lambda: served(running, "House"), houses)
    _wait(running, "the view of the derived stream", lambda: _counts(served(running, "Warm")), warm)
    _wait(running, "the lifetime windows", lambda: newest(running.broker, "totals.clean", "house", "n"), counts)
    _wait(running, "the lake", lambda: landed(running, "silver/readings"), sum(counts.values()))


def _count(sent: Iterable[Event], condition: Any) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for event in filter(is_clean, sent):
        counts[event["house"]] += condition(event)
    return {house: n for house, n in counts.items() if n}


def _counts(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {house: values["readings_forever"] for house, values in rows.items() if values["readings_forever"]}


def _wait(running: Running, what: str, value: Any, wanted: Any) -> None:
    last: list[Any] = [None]

    def is_right() -> bool:
        last[0] = value()
        return bool(last[0] == wanted)

    wait_until(is_right, LIMIT_S, f"{what} to be right", lambda: f"{last[0]}\nwanted {wanted}\n{running.said()}")
