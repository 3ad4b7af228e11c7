"""An event of Nexmark is a pure function of its number: any process can make it, in any order, on any machine.

number   0       1 2 3      4 … 49   50      51 52 53   54 … 99
event    person  auctions   bids     person  auctions   bids

After "NEXMark: a benchmark for queries over data streams" (Tucker, Tufte, Papadimos, Maier) and the figures of
github.com/nexmark/nexmark: kinds 1 to 3 to 46; half of the bids are for one hot auction, three quarters of bids and
auctions are of one hot person; 100 auctions are open at a time; prices are even in their logarithm.
"""

from dataclasses import dataclass

from bench.nexmark import words
from bench.nexmark.draws import draw

PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PERSONS + AUCTIONS + BIDS
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
HOT_AUCTION, HOT_PERSON, HOT_CHANNEL = 2, 4, 2  # all but one in so many are for the hot one
HOT_FOR = 100  # so many persons, or auctions, until another one is hot
OPEN, ACTIVE, LEAD = 100, 1_000, 10
SHUFFLE = 953  # a prime: numbers of a group that is no multiple of it are dealt out, each once
START_MS = 1_767_225_600_000  # 2026-01-01


@dataclass(frozen=True)
class Shape:
    """What events look like: which chance, how many a second of event time, from when, in what disorder.

    The event at a position of the log is one of the `group` numbers around it; a group of 1 is in order.
    """

    seed: int = 1
    rate: int = 1_000
    start_ms: int = START_MS
    group: int = 1

    def happened_ms(self, number: int) -> int:
        """When an event happened."""
        return self.start_ms + number * 1_000 // self.rate

    def number_at(self, place: int) -> int:
        """The number of the event at a position of the log.

        >>> [Shape(group=5).number_at(place) for place in range(10)]
        [0, 3, 1, 4, 2, 5, 8, 6, 9, 7]
        """
        return place // self.group * self.group + place * SHUFFLE % self.group

    @property
    def longest_ms(self) -> int:
        """How long an auction is open at most: on average so long as it takes until as many new ones have come."""
        return max(1, 2 * OPEN * EPOCH // AUCTIONS * 1_000 // self.rate)


@dataclass(frozen=True)
class Person:
    """A new person."""

    number: int
    id: int
    name: str
    email: str
    card: str
    city: str
    state: str
    happened_ms: int
    extra: str


@dataclass(frozen=True)
class Auction:
    """Something a person sells."""

    number: int
    id: int
    item: str
    description: str
    initial_bid: int
    reserve: int
    happened_ms: int
    expires_ms: int
    seller: int
    category: int
    extra: str


@dataclass(frozen=True)
class Bid:
    """A price, in cents, that a person offers."""

    number: int
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    happened_ms: int
    extra: str


def event(number: int, shape: Shape) -> Person | Auction | Bid:
    """The event of a number."""
    place = number % EPOCH
    if place < PERSONS:
        return _person(number, shape)
    return _auction(number, shape) if place < PERSONS + AUCTIONS else _bid(number, shape)


def last_person(number: int) -> int:
    """The newest person when an event happens, counted from 0."""
    return number // EPOCH * PERSONS + min(number % EPOCH, PERSONS - 1)


def last_auction(number: int) -> int:
    """The newest auction when an event happens, counted from 0; -1 before the first."""
    return number // EPOCH * AUCTIONS + min(number % EPOCH - PERSONS, AUCTIONS - 1)


def _person(number: int, shape: Shape) -> Person:
    def pick(slot: int, of: tuple[str, ...]) -> str:
        return of[draw(number, slot, shape.seed, len(of))]

    return Person(
        number,
        FIRST_ID + last_person(number),
        f"{pick(0, words.FIRST_NAMES)} {pick(1, words.LAST_NAMES)}",
        f"{pick(2, words.WORDS)}@{pick(3, words.WORDS)}.example",
        " ".join(pick(slot, words.DIGITS) for slot in (4, 5, 6, 7)),
        pick(8, words.CITIES),
        pick(9, words.STATES),
        shape.happened_ms(number),
        pick(10, words.PERSON_PADDING),
    )


def _auction(number: int, shape: Shape) -> Auction:
    seed, happened_ms = shape.seed, shape.happened_ms(number)
    is_hot = draw(number, 0, seed, HOT_PERSON) > 0
    seller = last_person(number) // HOT_FOR * HOT_FOR if is_hot else _somebody(number, seed)
    initial_bid = _price(number, 3, seed)
    return Auction(
        number,
        FIRST_ID + last_auction(number),
        words.ITEMS[draw(number, 5, seed, words.PADDINGS)],
        words.DESCRIPTIONS[draw(number, 6, seed, words.PADDINGS)],
        initial_bid,
        initial_bid + _price(number, 7, seed),
        happened_ms,
        happened_ms + 1 + draw(number, 9, seed, shape.longest_ms),
        FIRST_ID + seller,
        FIRST_CATEGORY + draw(number, 10, seed, CATEGORIES),
        words.AUCTION_PADDING[draw(number, 11, seed, words.PADDINGS)],
    )


def _bid(number: int, shape: Shape) -> Bid:
    seed = shape.seed
    auction_is_hot = draw(number, 0, seed, HOT_AUCTION) > 0
    auction = last_auction(number) // HOT_FOR * HOT_FOR if auction_is_hot else _some_auction(number, seed)
    bidder_is_hot = draw(number, 3, seed, HOT_PERSON) > 0
    bidder = last_person(number) // HOT_FOR * HOT_FOR + 1 if bidder_is_hot else _somebody(number, seed)
    channel = _channel(number, seed)
    return Bid(
        number,
        FIRST_ID + auction,
        FIRST_ID + bidder,
        _price(number, 4, seed),
        words.ALL_CHANNELS[channel],
        words.ALL_URLS[channel],
        shape.happened_ms(number),
        words.BID_PADDING[draw(number, 9, seed, words.PADDINGS)],
    )


def _somebody(number: int, seed: int) -> int:
    """One of the newest persons, or of those who will come next."""
    known = last_person(number) + 1
    active = min(known, ACTIVE)
    return known - active + draw(number, 1, seed, active + LEAD)


def _some_auction(number: int, seed: int) -> int:
    """One of the auctions that may be open, or of those that will come next."""
    newest = last_auction(number)
    oldest = max(newest - OPEN, 0)
    return oldest + draw(number, 2, seed, newest - oldest + 1 + LEAD)


def _price(number: int, slot: int, seed: int) -> int:
    """Between a dollar and a million, in cents: every factor of ten is as likely."""
    step, part = divmod(draw(number, slot, seed, 1_000_000), 1_000)
    return words.PRICES[step] + (words.PRICES[step + 1] - words.PRICES[step]) * part // 1_000


def _channel(number: int, seed: int) -> int:
    """The place of a channel, and of its URL: half of the bids come by one of the hot ones."""
    if draw(number, 6, seed, HOT_CHANNEL) > 0:
        return draw(number, 7, seed, len(words.HOT_CHANNELS))
    return len(words.HOT_CHANNELS) + draw(number, 8, seed, words.CHANNELS)
