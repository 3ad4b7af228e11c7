"""Random events for joins: any order, any batches, any valid clock."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from headrace.operators.operator import InputEvent, Operator, advance_operator
from tests.operators.join_oracle import Told, text

END_US = 10**9
KEYS = ["a", "a", "a", "a", "a", "a", "b", None]
VALUES = [None, None, 1.5, -0.0, float("nan"), float("inf")]


def history(dice: Random) -> list[InputEvent]:
    """A few events of both sides with a time and a lateness: ties, strangers and nulls among them."""
    last_us, latest_us = dice.choice([6, 25]), dice.choice([4, 30])
    return [
        random_event(dice, f"e{number}", dice.randint(0, last_us), dice.randint(-4, latest_us))
        for number in range(dice.randint(0, 16))
    ]


def random_event(dice: Random, own_id: str, time_us: int, late_us: int) -> InputEvent:
    return event(own_id, dice.randint(0, 1), time_us, time_us + late_us, dice.choice(KEYS), dice.choice(VALUES))


def event(
    own_id: str, source: int, time_us: int, arrival_us: int, key: str | None = "a", paid: Any = 1.5
) -> InputEvent:
    return InputEvent(source, own_id, time_us, arrival_us, 0, 0, {"key": key, "id": own_id, "paid": paid})


def run_of(dice: Random, events: Sequence[InputEvent]) -> list[tuple[list[InputEvent], int]]:
    """The events in batches, each with a clock: what has not been taken yet arrived no earlier than that."""
    jitter_us = dice.choice([0, 3, 40])
    order = sorted(events, key=lambda one: one.arrival_us + dice.randint(0, jitter_us))
    batches, clock_us = [], -END_US
    while order:
        size = dice.randint(1, dice.choice([2, len(order)]))
        batch, order = order[:size], order[size:]
        furthest_us = min((one.arrival_us for one in order), default=END_US)
        clock_us = max(clock_us, min(furthest_us, furthest_us - dice.randint(0, 6)))
        batches.append((batch, clock_us))
    return [*batches, ([], END_US)]


def made(operator: Operator[Any], run: Iterable[tuple[list[InputEvent], int]]) -> Counter[Told]:
    """What an operator makes of a run, key by key, with what it keeps packed after each step, as Spark would."""
    states: dict[Any, bytes] = {}
    rows: Counter[Told] = Counter()
    for batch, clock_us in run:
        by_key: dict[Any, list[InputEvent]] = {key: [] for key in states}
        for one in batch:
            by_key.setdefault(one.values["key"], []).append(one)
        for key, events in by_key.items():
            kept = operator.decode_state(states.pop(key)) if key in states else operator.create_state()
            for row in advance_operator(operator, (key,), kept, events, clock_us):
                rows[Told(row.output, row.id, row.time_us, row.known_us, text(row.values))] += 1
            if operator.next_timer_us(kept) is not None:
                states[key] = operator.encode_state(kept)
    assert not states, "once all time has passed nothing is kept"
    return rows
