"""Events for joins: any order, any batches, any clocks that keep their promise."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from headrace.operators.operator import Arrived, Operator, step
from tests.operators.join_oracle import Told, text

END_US = 10**9
VALUES = st.sampled_from([None, 1.5, -0.0, float("nan"), float("inf")])


@st.composite
def histories(draw: st.DrawFn, latest_us: int = 30) -> list[Arrived]:
    """A few events of both sides with a time and a lateness: ties, strangers and nulls among them."""
    said = st.tuples(
        st.integers(0, 1),
        st.integers(0, 25),
        st.integers(-4, latest_us),
        st.sampled_from(["a", "a", "a", "b", None]),
        VALUES,
    )
    return [
        event(f"e{number}", source, time_us, time_us + late_us, key, paid)
        for number, (source, time_us, late_us, key, paid) in enumerate(draw(st.lists(said, max_size=14)))
    ]


def event(own_id: str, source: int, time_us: int, arrival_us: int, key: str | None = "a", paid: Any = 1.5) -> Arrived:
    return Arrived(source, own_id, time_us, arrival_us, 0, 0, {"key": key, "id": own_id, "paid": paid})


@st.composite
def runs(draw: st.DrawFn, events: Sequence[Arrived]) -> list[tuple[list[Arrived], int]]:
    """The events in batches, each with a clock: what has not been taken yet arrived no earlier than that."""
    jitter = draw(st.sampled_from([0, 3, 40]))
    noise = [draw(st.integers(0, jitter)) for _ in events]
    order = [one for _, _, one in sorted(zip(map(_late, events), noise, events, strict=True), key=_noisy)]
    batches, clock_us = [], 0
    while order:
        size = draw(st.integers(1, len(order)))
        batch, order = order[:size], order[size:]
        furthest_us = min((one.arrival_us for one in order), default=END_US)
        clock_us = max(clock_us, furthest_us - draw(st.integers(0, 6)))
        batches.append((batch, min(clock_us, furthest_us)))
    return [*batches, ([], END_US)]


def _late(event: Arrived) -> int:
    return event.arrival_us


def _noisy(one: tuple[int, int, Arrived]) -> tuple[int, Any]:
    return one[0] + one[1], one[2].id


def made(operator: Operator[Any], run: Iterable[tuple[list[Arrived], int]]) -> Counter[Told]:
    """What an operator makes of a run, key by key, with what it keeps packed after each step, as Spark would."""
    states: dict[Any, bytes] = {}
    rows: Counter[Told] = Counter()
    for batch, clock_us in run:
        by_key: dict[Any, list[Arrived]] = {key: [] for key in states}
        for one in batch:
            by_key.setdefault(one.values["key"], []).append(one)
        for key, events in by_key.items():
            kept = operator.unpacked(states.pop(key)) if key in states else operator.begin()
            for row in step(operator, (key,), kept, events, clock_us):
                rows[Told(row.output, row.id, row.time_us, row.known_us, text(row.values))] += 1
            if operator.due_us(kept) is not None:
                states[key] = operator.packed(kept)
    assert not states, "once all time has passed nothing is kept"
    return rows
