"""Draws a season as a chart on a page: plain SVG and HTML that open in any browser, light or dark.

┌ AUC of the week before each day: realised, estimated, first version; dates of retraining  ┐
├ label coverage by day, and as it was known at the end of a week                           ┤
└ drifted inputs by month                                                                   ┘
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from seen import Day, Decision, Season

WIDTH, LEFT, RIGHT = 1080, 64, 24
AUC_TOP, AUC_HEIGHT = 96, 300
COVERAGE_TOP, COVERAGE_HEIGHT = 436, 110
DRIFT_TOP, DRIFT_LINE, DRIFT_LINES = 606, 19, 4
DRIFT_WIDTH, DRIFT_WIDEST = 250, 1.0  # the width of a bar for a PSI of 1, and the PSI at which bars are cut
HEIGHT = DRIFT_TOP + DRIFT_LINE * DRIFT_LINES + 34
COLOURS = {
    "ink": ("#1d2733", "#e8ecf1"),
    "soft": ("#5d6977", "#9ba8b6"),
    "edge": ("#dfe3e8", "#2b343e"),
    "paper": ("#ffffff", "#12171d"),
    "blue": ("#3f7fd6", "#5f9ff2"),
    "orange": ("#cf7c22", "#e6a04e"),
    "green": ("#2b9458", "#4cc17c"),
    "grey": ("#8a96a3", "#6f7d8b"),
    "red": ("#c43d4b", "#f0717c"),
}
TEXT_STYLE = (
    "text { font-size: 13px; fill: var(--ink); paint-order: stroke; stroke: var(--paper); stroke-width: 4px; } "
    ".soft { fill: var(--soft); } .end { text-anchor: end; } "
    ".bold { font-weight: bold; } .large { font-size: 17px; } "
    ".flat { stroke: none; }"
)
PAGE_STYLE = (
    f"body {{ margin: 2rem auto; max-width: {WIDTH}px; padding: 0 1rem; }} "
    "body { background: var(--paper); color: var(--ink); } "
    "svg { width: 100%; height: auto; } table { border-collapse: collapse; margin: 1rem 0; } "
    "td, th { text-align: left; padding: .35rem 1.2rem .35rem 0; border-bottom: 1px solid var(--edge); } "
    "p { color: var(--soft); margin: .3rem 0; }"
)
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


@dataclass(frozen=True)
class Scale:
    """A linear scale from values to coordinates."""

    low: float
    high: float
    at_low: float
    at_high: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.at_low + share * (self.at_high - self.at_low), 1)


def page(season: Season, notes: Sequence[str]) -> str:
    """The whole page: the chart, the table of months, and further lines of text."""
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table(season))
    lines = "".join(f"<p>{escape(line)}</p>" for line in notes)
    heads = "".join(f"<th>{name}</th>" for name in HEADINGS)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title(season))}</title>'
        f"<style>{style(':root')} {PAGE_STYLE}</style>{picture(season)}"
        f"<table><tr>{heads}</tr>{rows}</table>{lines}</html>"
    )


HEADINGS = ("", "AUC of the first version", "AUC of the champion", "decided when it began")


def table(season: Season) -> list[tuple[str, str, str, str]]:
    """The table of results, one row per month."""
    decided = {decision.at: decision for decision in season.decisions}
    return [
        (month.name, _auc(month.first_auc.value), _auc(month.champion_auc.value), in_words(decided[month.begin]))
        for month in season.months
    ]


def _auc(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"


def in_words(decision: Decision) -> str:
    """A decision about a version as text."""
    return f"version {decision.version} {'takes over' if decision.is_promoted else 'is refused'}: {decision.reason}"


def lines(season: Season) -> list[str]:
    """The table for a terminal."""
    return [
        f"{month:<12}{first:>15}{champion:>12}   {decided}"
        for month, first, champion, decided in (
            ("", "first version", "champion", "decided when it began"),
            *table(season),
        )
    ]


def title(season: Season) -> str:
    first, last = season.months[0], season.months[-1]
    return f"Flights out of New York, {first.name} to {last.name} {last.begin:%Y}: who arrives half an hour late?"


def picture(season: Season) -> str:
    """The chart as SVG."""
    drawn = [*_frame(season), *_decisions(season), *_areas(season), *_coverage(season), *_drift(season)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(title(season))}</title><style>{style('svg')}</style>"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="var(--paper)"/>{"".join(drawn)}</svg>'
    )


def style(selector: str) -> str:
    """The CSS of the light and the dark colour scheme."""
    light, dark = (" ".join(f"--{name}: {values[place]};" for name, values in COLOURS.items()) for place in (0, 1))
    shown = f"{selector} {{ {light} font-family: {FONT}; }} {TEXT_STYLE}"
    return f"{shown} @media (prefers-color-scheme: dark) {{ {selector} {{ {dark} }} }}"


def _time(season: Season) -> Scale:
    begin, end = season.months[0].begin.timestamp(), season.months[-1].end.timestamp()
    return Scale(begin, end, LEFT, WIDTH - RIGHT)


def _frame(season: Season) -> Iterator[str]:
    """The title, and a line at the start of each month."""
    yield _text(LEFT, 28, title(season), "bold large")
    place = _time(season)
    for number, month in enumerate(season.months):
        at = place(month.begin.timestamp())
        if number:
            yield f'<path d="M{at} {AUC_TOP}V{HEIGHT - 10}" stroke="var(--edge)"/>'
        yield _text(at + 6, DRIFT_TOP - 22, month.name, "bold")


def _areas(season: Season) -> Iterator[str]:
    """The AUC chart: three lines and their axis."""
    values = [value for day in season.days for value in (day.realised, day.estimated, day.first) if value is not None]
    low, high = _rounded(min(values, default=0.9), max(values, default=1.0))
    scale = Scale(low, high, AUC_TOP + AUC_HEIGHT, AUC_TOP)
    yield from _axis(scale, 0.01 if high - low < 0.1 else 0.05, "AUC of the week before", AUC_TOP)
    for _, colour, dash, value in LINES:
        yield from _line(season, scale, (colour, dash), value)
    yield from _legend([(name, colour, dash) for name, colour, dash, _ in LINES], 54)


LINES: tuple[tuple[str, str, str, Callable[[Day], float | None]], ...] = (
    ("left alone: the first version", "grey", "", lambda day: day.first),
    ("estimated, before labels came", "orange", "5 4", lambda day: day.estimated),
    ("realised", "blue", "", lambda day: day.realised),
)


def _rounded(low: float, high: float) -> tuple[float, float]:
    """Round a range outwards to hundredths."""
    return int(low * 100) / 100, min(1.0, int(high * 100 + 1) / 100)


def _line(season: Season, scale: Scale, how: tuple[str, str], value: Callable[[Day], float | None]) -> Iterator[str]:
    """A line through the ends of the days that have a value."""
    place, (colour, dash) = _time(season), how
    points = [
        f"{place(day.at.timestamp() + 86_400)} {scale(number)}"
        for day in season.days
        if (number := value(day)) is not None
    ]
    if points:
        yield (
            f'<path d="M{"L".join(points)}" fill="none" stroke="var(--{colour})" stroke-width="2" '
            f'stroke-dasharray="{dash}" stroke-linejoin="round"/>'
        )


def _coverage(season: Season) -> Iterator[str]:
    """The label coverage of each day; a circle shows the coverage that was known when the day ended."""
    known = [value for day in season.days if (value := day.coverage) is not None]
    early = [look for look in season.looks if look.coverage is not None]
    low = min([*known, *(look.coverage or 0 for look in early)], default=0.9)
    scale = Scale(int(low * 20) / 20, 1.0, COVERAGE_TOP + COVERAGE_HEIGHT, COVERAGE_TOP)
    yield from _axis(scale, 0.05 if scale.low > 0.79 else 0.1, "Label coverage of the day", COVERAGE_TOP)
    yield from _line(season, scale, ("green", ""), lambda day: day.coverage)
    place = _time(season)
    for look in early:
        at, value = place(look.at.timestamp()), scale(look.coverage or 0)
        yield f'<circle cx="{at}" cy="{value}" r="4" fill="var(--paper)" stroke="var(--green)" stroke-width="2"/>'
    keys = [("by now", "green", ""), ("○ when the day ended: the last had not landed yet", "none", "")]
    yield from _legend(keys, COVERAGE_TOP - 16, 250)


def _axis(scale: Scale, step: float, name: str, top: float) -> Iterator[str]:
    yield _text(LEFT, top - 12, name, "soft")
    for number in range(round(scale.low / step), round(scale.high / step) + 1):
        value = number * step
        if scale.low - 1e-9 <= value <= scale.high + 1e-9:
            at = scale(value)
            yield f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="var(--edge)"/>'
            yield _text(LEFT - 8, at + 4, f"{value:.2f}", "soft end")


def _legend(keys: Iterable[tuple[str, str, str]], top: float, left: float = LEFT) -> Iterator[str]:
    for name, colour, dash in keys:
        drawn = colour != "none"
        if drawn:
            yield (
                f'<path d="M{left} {top}h26" stroke="var(--{colour})" stroke-width="2.5" stroke-dasharray="{dash}"/>'
            )
        yield _text(left + (34 if drawn else 0), top + 4, name)
        left += 60 + 7 * len(name)


def _decisions(season: Season) -> Iterator[str]:
    """A labelled line at each retraining."""
    place = _time(season)
    for decision in season.decisions[1:]:
        at, colour = place(decision.at.timestamp()), "red" if decision.is_promoted else "grey"
        words = f"version {decision.version} {'takes over' if decision.is_promoted else 'is refused'}"
        line = f"M{at} {AUC_TOP}V{COVERAGE_TOP + COVERAGE_HEIGHT}"
        yield f'<path d="{line}" stroke="var(--{colour})" stroke-width="1.5"/>'
        yield f'<circle cx="{at}" cy="{AUC_TOP}" r="4" fill="var(--{colour})"/>'
        yield _text(at + 9, AUC_TOP - 9, f"retrained: {words}")


def _drift(season: Season) -> Iterator[str]:
    """The inputs that have drifted from the champion's training data, by month, the most important first."""
    yield _text(LEFT, DRIFT_TOP - 44, "Drift from what the month's champion was trained on: how far, as PSI", "soft")
    place = _time(season)
    for month in season.months:
        at = place(month.begin.timestamp()) + 6
        for number, (name, distance) in enumerate(month.drifted[:DRIFT_LINES]):
            top = DRIFT_TOP + number * DRIFT_LINE
            width = round(min(distance, DRIFT_WIDEST) * DRIFT_WIDTH, 1)
            yield f'<rect x="{at}" y="{top - 11}" width="{width}" height="14" fill="var(--orange)" opacity="0.35"/>'
            yield f'<text x="{at + 4}" y="{top}" class="flat">{escape(name)} {distance:.2f}</text>'
        if not month.drifted:
            yield _text(at, DRIFT_TOP, "nothing")
        hidden = len(month.drifted) - DRIFT_LINES
        if hidden > 0:
            yield _text(at, DRIFT_TOP + DRIFT_LINES * DRIFT_LINE, f"and {hidden} more", "soft")


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>'
