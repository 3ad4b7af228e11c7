"""Any order, repetition and interleaving of tile versions converges to the same reads, and no count decreases."""

import asyncio
import random
from collections.abc import Iterator, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.feature_lookup import LookupResult
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.registry import create_store
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend

CARDS = ["c1", "c2", "c3"]
END_US = T0_US + 130 * MINUTE_US

events = st.lists(
    st.builds(Event, st.sampled_from(CARDS), st.integers(0, 130 * 6).map(lambda tens: T0_US + tens * 10_000_000)),
    min_size=1,
    max_size=60,
)


def deliveries(records: list[ConsumerRecord], seed: int) -> Iterator[list[ConsumerRecord]]:
    """All records in batches, out of order, some of them several times."""
    chance = random.Random(seed)
    sent = records + chance.choices(records, k=chance.randrange(len(records)))
    chance.shuffle(sent)
    while sent:
        size = chance.randint(1, 20)
        yield sent[:size]
        sent = sent[size:]


def counts(reads: Sequence[LookupResult]) -> list[int]:
    return [count for read in reads for count in read.values[:2]]


def in_order(view: hr.View, records: list[ConsumerRecord]) -> str:
    store = MemoryStore([view])
    store.apply(records)
    return repr(store.read(view.name, [(card,) for card in CARDS], END_US))


@given(events=events, seed=st.integers(0, 2**32))
def test_memory_converges_and_never_goes_back(events: list[Event], seed: int) -> None:
    view = new_spend()
    records = changelog(events, view)
    store, before = MemoryStore([view]), [0] * 6
    for batch in deliveries(records, seed):
        store.apply(batch)
        now = counts(store.read(view.name, [(card,) for card in CARDS], END_US))
        assert all(new >= old for new, old in zip(now, before, strict=True))
        before = now
    assert repr(store.read(view.name, [(card,) for card in CARDS], END_US)) == in_order(view, records)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=events, seed=st.integers(0, 2**32))
def test_a_shared_store_converges_and_never_goes_back(store_url: str, events: list[Event], seed: int) -> None:
    asyncio.run(converges(store_url, events, seed))


async def converges(url: str, events: list[Event], seed: int) -> None:
    view = new_spend()
    records = changelog(events, view)
    # Two writers take turns, as apply workers do while partitions move from one to the other.
    stores, before = [create_store(url, [view]), create_store(url, [view])], [0] * 6
    for turn, batch in enumerate(deliveries(records, seed)):
        stores[turn % 2].apply(batch)
        now = counts(await stores[0].read(view.name, [(card,) for card in CARDS], END_US))
        assert all(new >= old for new, old in zip(now, before, strict=True))
        before = now
    assert repr(await stores[0].read(view.name, [(card,) for card in CARDS], END_US)) == in_order(view, records)
    for store in stores:
        await store.close()
