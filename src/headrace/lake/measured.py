"""What was measured of a stream's lateness, in values, in JSON and for a person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.declare.durations import duration_text

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
MARGIN = 1.5  # how many times P99 the recommended lateness is at least


@dataclass(frozen=True)
class Delays:
    """A distribution of lateness, in microseconds: each figure is one that occurred."""

    events: int
    p50_us: int
    p90_us: int
    p99_us: int
    p99_9_us: int
    greatest_us: int


@dataclass(frozen=True)
class Lost:
    """What a `late=` would lose: the share of events, and of what each feature adds up; None where that is nothing."""

    late_us: int
    events: float
    features: Mapping[str, float | None]


@dataclass(frozen=True)
class Lateness:
    """The lateness of a stream's events."""

    stream: str
    delays: Delays
    by_hour: Mapping[int, Delays]
    present_us: int
    recommended_us: int
    lost: tuple[Lost, ...]


def as_json(found: Lateness) -> dict[str, Any]:
    """What was found, in plain values; durations in milliseconds, shares from 0 to 1."""
    return {
        "stream": found.stream,
        **_plain(found.delays),
        "by_hour": {f"{hour:02d}": _plain(delays) for hour, delays in found.by_hour.items()},
        "late": duration_text(found.present_us),
        "recommended": duration_text(found.recommended_us),
        "lost": [
            {"late": _late_text(lost), "events": lost.events, "features": dict(lost.features)} for lost in found.lost
        ],
    }


def _plain(delays: Delays) -> dict[str, float]:
    figures = {name: getattr(delays, f"{name}_us") / 1000 for name in (*SHARES, "greatest")}
    return {"events": delays.events, **{f"{name}_ms": value for name, value in figures.items()}}


def _late_text(lost: Lost) -> str:
    return duration_text(lost.late_us) if lost.late_us else "0s"


def as_text(found: Lateness) -> str:
    """What was found, for a person."""
    lines = [
        f"{found.stream}: arrival − event time",
        f"{'':12}{'events':>12}{'P50':>12}{'P90':>12}{'P99':>12}{'P99.9':>12}{'maximum':>12}",
        _line("all", found.delays),
        " by hour of arrival (UTC)",
        *(_line(f"{hour:02d}:00", delays) for hour, delays in found.by_hour.items()),
        f" late= is {duration_text(found.present_us)}; recommended is {duration_text(found.recommended_us)}",
        *_lost_lines(found.lost),
    ]
    return "\n".join(lines)


def _line(name: str, delays: Delays) -> str:
    figures = (delays.p50_us, delays.p90_us, delays.p99_us, delays.p99_9_us, delays.greatest_us)
    return f"  {name:10}{delays.events:>12,}" + "".join(f"{us / 1e6:>10,.3f} s" for us in figures)


def _lost_lines(choices: Sequence[Lost]) -> list[str]:
    shares = {"events": [lost.events for lost in choices]} | {
        name: [lost.features[name] for lost in choices] for name in choices[0].features
    }
    head = "".join(f"{_late_text(lost):>12}" for lost in choices)
    rows = [f"{'':12}{''.join(f'{_percent(share):>12}' for share in row)}   {name}" for name, row in shares.items()]
    return [f" lost at    {head}", *rows]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.3f} %"
