"""A cached answer equals the one that would be computed."""

from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.online_store.feature_lookup import TileRowsReader
from headrace.online_store.memory.memory_store import MemoryStore
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, payments


@hr.features(payments, by="card")
class Uneven:
    """Windows that are no multiple of their hop: tiles enter and leave at different times."""

    payments = hr.count(windows="100s", hop="40s")
    few = hr.count(windows="10m", hop="7s")
    spend = hr.sum("amount", windows=["90s", "1h"])


times = st.integers(0, 20 * 60 * 4).map(lambda quarters: T0_US + 5 * MINUTE_US + quarters * 250_000)
steps = st.lists(
    st.one_of(
        st.builds(Event, st.sampled_from(["c1", "c2"]), times),
        st.tuples(st.sampled_from(["c1", "c2", "never"]), times),
    ),
    max_size=60,
)


@given(steps=steps)
def test_reads_in_between_changes_are_what_a_fresh_reader_says(steps: list[Event | tuple[str, int]]) -> None:
    store, fresh = MemoryStore([Uneven]), TileRowsReader(Uneven)
    table = store.tables["Uneven"]
    seen: list[Event] = []
    for step in steps:
        if isinstance(step, Event):
            seen.append(step)
            store.apply(changelog(seen, Uneven)[-len(fresh.layouts) :])
        elif step[1] >= table.newest_time_us:
            card, at_us = step
            for again_us in (at_us, at_us, at_us + 1, at_us + 250_000):
                kept = table._states.get((card,))
                assert table.read((card,), again_us) == fresh.read(kept and kept.rows_by_hop, again_us)


def test_an_answer_is_computed_once_between_two_edges_of_tiles() -> None:
    store = MemoryStore([Uneven])
    store.apply(changelog([Event("c1", T0_US)], Uneven))
    (first,) = store.read("Uneven", [("c1",)], T0_US)
    (again,) = store.read("Uneven", [("c1",)], T0_US + 900_000)
    assert again is first
    store.apply(changelog([Event("c1", T0_US), Event("c1", T0_US)], Uneven))
    (changed,) = store.read("Uneven", [("c1",)], T0_US + 900_000)
    assert changed is not first
