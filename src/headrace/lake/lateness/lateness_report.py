"""Measurements of a stream's lateness, as values, JSON and text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.declare.durations import duration_text

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
RECOMMENDED_MARGIN = 1.5  # the minimum recommended lateness as a multiple of P99


@dataclass(frozen=True)
class LatenessDistribution:
    """A distribution of lateness, in microseconds: each quantile is an observed value."""

    events: int
    p50_us: int
    p90_us: int
    p99_us: int
    p99_9_us: int
    greatest_us: int


@dataclass(frozen=True)
class LatenessLoss:
    """The loss of a `late=`: the share of events, and of each feature's count or sum; None where there is none."""

    late_us: int
    event_share: float
    feature_shares: Mapping[str, float | None]


@dataclass(frozen=True)
class LatenessReport:
    """The lateness of a stream's events."""

    stream: str
    distribution: LatenessDistribution
    by_hour: Mapping[int, LatenessDistribution]
    current_us: int
    recommended_us: int
    losses: tuple[LatenessLoss, ...]


def to_json(report: LatenessReport) -> dict[str, Any]:
    """The report as plain values; durations in milliseconds, shares from 0 to 1."""
    return {
        "stream": report.stream,
        **_distribution_to_json(report.distribution),
        "by_hour": {
            f"{hour:02d}": _distribution_to_json(distribution) for hour, distribution in report.by_hour.items()
        },
        "late": duration_text(report.current_us),
        "recommended": duration_text(report.recommended_us),
        "lost": [
            {"late": _late_text(loss), "events": loss.event_share, "features": dict(loss.feature_shares)}
            for loss in report.losses
        ],
    }


def _distribution_to_json(distribution: LatenessDistribution) -> dict[str, float]:
    figures = {name: getattr(distribution, f"{name}_us") / 1000 for name in (*QUANTILES, "greatest")}
    return {"events": distribution.events, **{f"{name}_ms": value for name, value in figures.items()}}


def _late_text(loss: LatenessLoss) -> str:
    return duration_text(loss.late_us) if loss.late_us else "0s"


def to_text(report: LatenessReport) -> str:
    """The report as text."""
    lines = [
        f"{report.stream}: arrival − event time",
        f"{'':12}{'events':>12}{'P50':>12}{'P90':>12}{'P99':>12}{'P99.9':>12}{'maximum':>12}",
        _line("all", report.distribution),
        " by hour of arrival (UTC)",
        *(_line(f"{hour:02d}:00", distribution) for hour, distribution in report.by_hour.items()),
        f" late= is {duration_text(report.current_us)}; recommended is {duration_text(report.recommended_us)}",
        *_loss_lines(report.losses),
    ]
    return "\n".join(lines)


def _line(name: str, distribution: LatenessDistribution) -> str:
    figures = (
        distribution.p50_us,
        distribution.p90_us,
        distribution.p99_us,
        distribution.p99_9_us,
        distribution.greatest_us,
    )
    return f"  {name:10}{distribution.events:>12,}" + "".join(f"{us / 1e6:>10,.3f} s" for us in figures)


def _loss_lines(losses: Sequence[LatenessLoss]) -> list[str]:
    shares = {"events": [loss.event_share for loss in losses]} | {
        name: [lost.feature_shares[name] for lost in losses] for name in losses[0].feature_shares
    }
    head = "".join(f"{_late_text(lost):>12}" for lost in losses)
    rows = [f"{'':12}{''.join(f'{_percent(share):>12}' for share in row)}   {name}" for name, row in shares.items()]
    return [f" lost at    {head}", *rows]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.3f} %"
