"""The results of a season: the quality of a model by day, read from its tiles, and the decisions about its versions."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from headrace.declare.durations import UNITS_US
from headrace.monitoring.quality import estimated_quality as estimated
from headrace.monitoring.quality import realized_quality as realised
from headrace.monitoring.quality.curves import UNKNOWN, QualityMetricValue
from headrace.monitoring.quality.quality_table import QualityTable
from headrace.monitoring.quality.quality_tile import QualityTile, merge_tiles

DAY_US, MINUTE_US = UNITS_US["d"], UNITS_US["m"]
ROLLING_DAYS = 7
FIRST = "1"  # the version that a season begins with


class Day(NamedTuple):
    """The quality of a model over the week that ends with a day, and the label coverage of the day."""

    at: datetime
    realised: float | None
    estimated: float | None
    first: float | None  # the first version, once it is no longer champion
    coverage: float | None


class Look(NamedTuple):
    """The quality of a week with the labels that had arrived when it ended; the coverage is of its last day."""

    at: datetime
    realised: float | None
    estimated: float | None
    coverage: float | None


class Decision(NamedTuple):
    """A version trained at the start of a month: whether it was promoted, and why."""

    at: datetime
    version: str
    is_promoted: bool
    reason: str


@dataclass(frozen=True)
class Month:
    """A month, the AUC of its champion and of the first version, and the drifted inputs."""

    name: str
    begin: datetime
    end: datetime
    first_auc: QualityMetricValue = UNKNOWN
    champion_auc: QualityMetricValue = UNKNOWN
    drifted: tuple[tuple[str, float], ...] = ()  # inputs and their PSI


@dataclass
class Season:
    """All results of a season, as the page shows them."""

    months: list[Month]
    days: list[Day] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    @property
    def begin(self) -> datetime:
        return self.months[0].begin

    @property
    def end(self) -> datetime:
        return self.months[-1].end

    @property
    def reached(self) -> datetime:
        """The time up to which the season is replayed and evaluated."""
        return self.looks[-1].at if self.looks else self.begin

    def champion(self, at: datetime) -> str:
        """The version that scored at a time."""
        return [one.version for one in self.decisions if one.is_promoted and one.at <= at][-1]

    def keep(self, file: Path) -> None:
        """Save the results that cannot be computed again."""
        saved = {"looks": self.looks, "decisions": self.decisions}
        file.write_text(json.dumps(saved, default=datetime.isoformat))

    def take_up(self, file: Path) -> None:
        """Load the saved results of an earlier run, if there are any."""
        if file.exists():
            saved = json.loads(file.read_text())
            self.looks = [Look(datetime.fromisoformat(at), *rest) for at, *rest in saved["looks"]]
            self.decisions = [Decision(datetime.fromisoformat(at), *rest) for at, *rest in saved["decisions"]]


class Judged:
    """Reads a model's quality tiles by day."""

    def __init__(self, table: QualityTable) -> None:
        self._table = table

    def between(self, begin: datetime, end: datetime, version: str | None = None) -> QualityTile:
        """The predictions between two times: of the champions, or of one version in any role."""
        roles = ("champion",) if version is None else ("champion", "challenger")
        # A window covers every minute that starts in (now − window − 1 m, now].
        now_us, window_us = us(end) - MINUTE_US, us(end) - us(begin) - MINUTE_US
        tiles = (self._table.merge_window(now_us, window_us, role=role, version=version) for role in roles)
        return merge_tiles(self._table.layout, tiles)

    def look(self, at: datetime) -> Look:
        """The quality known at `at` of the week before it."""
        week, day = (self.between(at - timedelta(days=days), at) for days in (ROLLING_DAYS, 1))
        expected = estimated.expected_outcomes(week, self._table.settled_window(us(at)))
        return Look(at, realised.auc(week).value, estimated.auc(expected).value, realised.coverage(day).value)

    def days(self, begin: datetime, end: datetime, first_until: datetime) -> list[Day]:
        """The quality of every day; the first version has its own values from `first_until` on."""
        count = (end - begin).days
        dates = [begin + timedelta(days=number) for number in range(count)]
        champions = [self.between(date, date + timedelta(days=1)) for date in dates]
        firsts = [self.between(date, date + timedelta(days=1), FIRST) for date in dates if date >= first_until]
        firsts = champions[: count - len(firsts)] + firsts
        return [
            Day(
                at=date,
                realised=realised.auc(self._week(champions, number)).value,
                estimated=self._estimated_auc(champions, number),
                first=realised.auc(self._week(firsts, number)).value if date >= first_until else None,
                coverage=realised.coverage(champions[number]).value,
            )
            for number, date in enumerate(dates)
        ]

    def _week(self, days: list[QualityTile], number: int) -> QualityTile:
        return merge_tiles(self._table.layout, days[max(0, number + 1 - ROLLING_DAYS) : number + 1])

    def _estimated_auc(self, days: list[QualityTile], number: int) -> float | None:
        """The AUC estimate of a day, calibrated by the last week whose labels were final (a day and six hours) then."""
        settled = merge_tiles(self._table.layout, days[max(0, number - 1 - ROLLING_DAYS) : max(0, number - 1)])
        return estimated.auc(estimated.expected_outcomes(self._week(days, number), settled)).value


def us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def months(first: datetime, count: int, days: int | None) -> list[Month]:
    """`count` months from a day on, or pieces of `days` days."""
    pieces = list[Month]()
    begin = first
    for _ in range(count):
        end = begin + timedelta(days=days) if days else _next_month(begin)
        pieces.append(Month(f"{begin:%B}" if days is None else f"{begin:%d %B}", begin, end))
        begin = end
    return pieces


def _next_month(begin: datetime) -> datetime:
    return datetime(begin.year + begin.month // 12, begin.month % 12 + 1, 1, tzinfo=UTC)
