"""The texts of events: a draw selects each from a list."""

from collections.abc import Sequence

from bench.nexmark.draws import draw

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIRST_NAMES = ("Ada", "Blaise", "Carl", "Dorothy", "Emmy", "Felix", "Grace", "Hedy", "Isaac", "Joan", "Kurt")
LAST_NAMES = ("Abel", "Boole", "Curie", "Darwin", "Euler", "Fermat", "Gauss", "Hopper", "Noether")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Bend", "Boise", "Cheyenne", "Kent", "Los Angeles", "Phoenix", "Portland", "Redmond", "Seattle", "Tucson")
HOT_CHANNELS = ("Apple", "Baidu", "Facebook", "Google")
CHANNELS = 10_000
PADDINGS = 1_024


def letters(number: int, length: int) -> str:
    """A word of so many letters, always the same for a number."""
    return "".join(LETTERS[draw(number, slot, length, len(LETTERS))] for slot in range(length))


def _url(number: int) -> str:
    folders = "/".join(letters(number * 3 + folder, 5) for folder in range(3))
    return f"https://auctions.example/{folders}/item.htm?query=1"


def _channel_url(number: int) -> str:
    """One URL in ten has no channel."""
    named = draw(number, 0, CHANNELS, 10) > 0
    return _url(number) + (f"&channel_id={draw(number, 1, CHANNELS, 1 << 31)}" if named else "")


def _paddings(size: int) -> Sequence[str]:
    """Texts of about that size, a fifth shorter or longer at most."""
    fifth = size // 5
    return [
        letters(number, size + draw(number, 0, size, 2 * fifth + 1) - fifth) if size else ""
        for number in range(PADDINGS)
    ]


WORDS = tuple(letters(number, 7) for number in range(PADDINGS))
DIGITS = tuple(f"{number:04d}" for number in range(10_000))
ITEMS = tuple(letters(number, 20) for number in range(PADDINGS))
DESCRIPTIONS = tuple(letters(number, 100) for number in range(PADDINGS))
HOT_URLS = tuple(_url(CHANNELS + number) for number in range(len(HOT_CHANNELS)))
ALL_CHANNELS = (*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS)))
ALL_URLS = (*HOT_URLS, *(_channel_url(number) for number in range(CHANNELS)))
# With them a person has about 200 bytes, an auction 500, a bid 100, as Nexmark wants it; none counts channel and URL.
PERSON_PADDING, AUCTION_PADDING, BID_PADDING = (tuple(_paddings(size)) for size in (130, 340, 68))
PRICES = tuple(round(100 * 10 ** (6 * step / 1000)) for step in range(1_001))  # from a dollar to a million, in cents
