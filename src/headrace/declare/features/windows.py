"""Windows: durations of event time, the hops of the tiles they are merged from, and the unbounded window."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.declare.durations import UNITS_US, duration_text, duration_us
from headrace.errors import DeclarationError

HOPS_US = tuple(duration_us(text, "hop") for text in ("1s", "5s", "10s", "30s", "1m", "5m", "15m", "1h", "6h", "1d"))
TILES_PER_WINDOW = 48
MAX_TILES_PER_WINDOW = 10_000
FOREVER = "forever"
FOREVER_US = (
    2**62
)  # longer than the distance of any two event times; added to or subtracted from one it still fits 64 bits

WindowLengths = str | Sequence[str]


@dataclass(frozen=True)
class Window:
    """A duration of event time, and the hop of the tiles it is merged from; nothing exceeds the duration "forever".

    hop ├──┤
        t0 t1 t2 t3 … t48         the window at `at` is the tiles that start in (at − length − hop, at]:
             ├─────── length ───┤ never short, at most one hop too long
                                at
    """

    length_us: int
    hop_us: int
    text: str = field(compare=False)


def parse_window(text: object, hop: str | None, where: str) -> Window:
    """A window with the hop that is given, or the default hop for its length."""
    length_us = FOREVER_US if text == FOREVER else duration_us(text, f"{where}: windows")
    hop_us = choose_hop_us(length_us) if hop is None else duration_us(hop, f"{where}: hop")
    if length_us < hop_us:
        hop_text = hop or duration_text(hop_us)
        raise DeclarationError(
            f"{where}: window {text!r} is shorter than its hop {hop_text!r}. Write a longer window or a shorter hop."
        )
    if text != FOREVER and length_us // hop_us > MAX_TILES_PER_WINDOW:
        raise DeclarationError(
            f"{where}: window {text!r} with hop {hop!r} is {length_us // hop_us:,} tiles an entity. "
            f"Write a longer hop: at most {MAX_TILES_PER_WINDOW:,} are merged for an answer."
        )
    return Window(length_us, hop_us, str(text))


def choose_hop_us(length_us: int) -> int:
    """The largest hop that is at most 1/48 of a window, and at least one second.

    >>> duration_text(choose_hop_us(duration_us("7d", "window")))
    '1h'
    """
    fitting_hops_us = [hop_us for hop_us in HOPS_US if hop_us * TILES_PER_WINDOW <= length_us]
    return fitting_hops_us[-1] if fitting_hops_us else UNITS_US["s"]
