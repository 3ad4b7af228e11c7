"""Vectorized generator of the events of `generate.event`, a million a second: one Arrow table per kind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.nexmark import words
from bench.nexmark.draws import Numbers, draws
from bench.nexmark.generate import (
    ACTIVE,
    AUCTIONS,
    CATEGORIES,
    EPOCH,
    FIRST_CATEGORY,
    FIRST_ID,
    HOT_AUCTION,
    HOT_CHANNEL,
    HOT_FOR,
    HOT_PERSON,
    LEAD,
    OPEN,
    PERSONS,
    SHUFFLE,
    Shape,
)

MUCH_LATER_S = 3 * 86_400  # recorded time is not told to have passed before a day more of it has
PRICES = np.array(words.PRICES, np.int64)


@dataclass(frozen=True)
class Events:
    """Some events, each kind in the order of the log."""

    persons: pa.Table
    auctions: pa.Table
    bids: pa.Table

    def __iter__(self) -> Iterator[tuple[str, pa.Table]]:
        """The name of each kind, and its events."""
        return iter({"persons": self.persons, "auctions": self.auctions, "bids": self.bids}.items())

    def __len__(self) -> int:
        return sum(table.num_rows for _, table in self)


@dataclass(frozen=True)
class _Batch:
    """Numbers of one kind of events, and what is drawn for each."""

    numbers: Numbers
    shape: Shape

    def draw(self, slot: int, bound: int | Numbers) -> Numbers:
        return draws(self.numbers, slot, self.shape.seed, bound)

    def pick(self, slot: int, of: tuple[str, ...]) -> pa.Array:
        return taken(self.draw(slot, len(of)), of)

    def price(self, slot: int) -> Numbers:
        step, part = np.divmod(self.draw(slot, 1_000_000), 1_000)
        low, high = PRICES.take(step), PRICES.take(step + 1)
        return low + (high - low) * part // 1_000

    @property
    def happened_ms(self) -> Numbers:
        return self.shape.start_ms + self.numbers * 1_000 // self.shape.rate

    @property
    def last_person(self) -> Numbers:
        return self.numbers // EPOCH * PERSONS + np.minimum(self.numbers % EPOCH, PERSONS - 1)

    @property
    def last_auction(self) -> Numbers:
        return self.numbers // EPOCH * AUCTIONS + np.minimum(self.numbers % EPOCH - PERSONS, AUCTIONS - 1)

    @property
    def somebody(self) -> Numbers:
        known = self.last_person + 1
        active = np.minimum(known, ACTIVE)
        return known - active + self.draw(1, active + LEAD)

    @property
    def some_auction(self) -> Numbers:
        newest = self.last_auction
        oldest = np.maximum(newest - OPEN, 0)
        return oldest + self.draw(2, newest - oldest + 1 + LEAD)

    @property
    def channel(self) -> Numbers:
        hot, other = self.draw(7, len(words.HOT_CHANNELS)), len(words.HOT_CHANNELS) + self.draw(8, words.CHANNELS)
        return np.where(self.draw(6, HOT_CHANNEL) > 0, hot, other)


def taken(places: Numbers, of: tuple[str, ...]) -> pa.Array:
    """The texts at some indices of a list."""
    return _array(of).take(pa.array(places))


@cache
def _array(of: tuple[str, ...]) -> pa.Array:
    return pa.array(of)


def events(count: int, shape: Shape, first: int = 0) -> Events:
    """The events at `count` positions of the log, from a first one on."""
    places = np.arange(first, first + count, dtype=np.int64)
    return events_of(places // shape.group * shape.group + places * SHUFFLE % shape.group, shape)


def ended(count: int, shape: Shape) -> Events:
    """So many events, and one of each kind days later, which let all windows and auctions of the others end."""
    much_later = (count // EPOCH + 1 + MUCH_LATER_S * shape.rate // EPOCH) * EPOCH
    # The bid is as much later again: it is for no auction there is.
    last = events_of(np.array([much_later, much_later + PERSONS, 2 * much_later + EPOCH - 1], np.int64), shape)
    whole = events(count, shape)
    return Events(*(pa.concat_tables([one, other]) for (_, one), (_, other) in zip(whole, last, strict=True)))


def events_of(numbers: Numbers, shape: Shape) -> Events:
    """The events of some numbers, each kind in their order."""
    place = numbers % EPOCH
    is_person, is_bid = place < PERSONS, place >= PERSONS + AUCTIONS
    persons, auctions, bids = (numbers[kind] for kind in (is_person, ~is_person & ~is_bid, is_bid))
    return Events(_persons(_Batch(persons, shape)), _auctions(_Batch(auctions, shape)), _bids(_Batch(bids, shape)))


def _persons(batch: _Batch) -> pa.Table:
    mail = [batch.pick(2, words.WORDS), batch.pick(3, words.WORDS)]
    columns: dict[str, Any] = {
        "number": batch.numbers,
        "id": FIRST_ID + batch.last_person,
        "name": _joined([batch.pick(0, words.FIRST_NAMES), batch.pick(1, words.LAST_NAMES)], " "),
        "email": pc.binary_join_element_wise(_joined(mail, "@"), ".example", ""),
        "card": _joined([batch.pick(slot, words.DIGITS) for slot in (4, 5, 6, 7)], " "),
        "city": batch.pick(8, words.CITIES),
        "state": batch.pick(9, words.STATES),
        "happened_ms": batch.happened_ms,
        "extra": batch.pick(10, words.PERSON_PADDING),
    }
    return pa.table(columns)


def _joined(texts: Sequence[pa.Array], by: str) -> pa.Array:
    return pc.binary_join_element_wise(*texts, by)


def _auctions(batch: _Batch) -> pa.Table:
    hot_seller = batch.last_person // HOT_FOR * HOT_FOR
    initial_bid, happened_ms = batch.price(3), batch.happened_ms
    columns: dict[str, Any] = {
        "number": batch.numbers,
        "id": FIRST_ID + batch.last_auction,
        "item": batch.pick(5, words.ITEMS),
        "description": batch.pick(6, words.DESCRIPTIONS),
        "initial_bid": initial_bid,
        "reserve": initial_bid + batch.price(7),
        "happened_ms": happened_ms,
        "expires_ms": happened_ms + 1 + batch.draw(9, batch.shape.longest_ms),
        "seller": FIRST_ID + np.where(batch.draw(0, HOT_PERSON) > 0, hot_seller, batch.somebody),
        "category": FIRST_CATEGORY + batch.draw(10, CATEGORIES),
        "extra": batch.pick(11, words.AUCTION_PADDING),
    }
    return pa.table(columns)


def _bids(batch: _Batch) -> pa.Table:
    hot_auction = batch.last_auction // HOT_FOR * HOT_FOR
    hot_bidder = batch.last_person // HOT_FOR * HOT_FOR + 1
    channel = batch.channel
    columns: dict[str, Any] = {
        "number": batch.numbers,
        "auction": FIRST_ID + np.where(batch.draw(0, HOT_AUCTION) > 0, hot_auction, batch.some_auction),
        "bidder": FIRST_ID + np.where(batch.draw(3, HOT_PERSON) > 0, hot_bidder, batch.somebody),
        "price": batch.price(4),
        "channel": taken(channel, words.ALL_CHANNELS),
        "url": taken(channel, words.ALL_URLS),
        "happened_ms": batch.happened_ms,
        "extra": batch.pick(9, words.BID_PADDING),
    }
    return pa.table(columns)
