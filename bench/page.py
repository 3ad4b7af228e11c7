"""docs/benchmarks.md: rewrites its figures from the saved results, and keeps its text."""

from collections.abc import Mapping
from pathlib import Path

from bench.chart import draw
from bench.results import Kept, Table

BEGIN, END = "<!-- figures: python -m bench -->", "<!-- end of figures -->"
CHART = "benchmarks.svg"
BUSY = "**The machine was busy when some of these runs began: their figures are worth little.**"
TITLES = {
    "latency": "From the producer to an answer",
    "predictions": "From the producer to a prediction",
    "drain": "A backlog",
    "lake": "The lake beside the gate",
    "serve": "Questions",
    "overload": "Ten times too much",
    "scrape": "Metrics of 200 topics",
    "anchor": "Beside Feast",
    "growth": "Growth",
    "sql": "Queries",
    "sinks": "Sinks",
    "formats": "Avro beside JSON",
    "drift": "Drift",
    "drift-peers": "Drift beside River and Evidently",
}
NEXMARK = "nexmark"
UNTIMED = {"drift", "drift-peers"}  # they count, and a busy machine counts alike


def publish(kept: Mapping[str, Kept], docs: Path) -> None:
    """Draw the chart and write the tables between the marks of the pages; Nexmark has its own page."""
    (docs / CHART).write_text(draw(kept))
    pages = {"benchmarks.md": figures(kept)}
    if NEXMARK in kept:
        pages["nexmark.md"] = f"{runs({NEXMARK: kept[NEXMARK]})}\n\n{kept[NEXMARK].body()}"
    for name, text in pages.items():
        page = docs / name
        page.write_text(with_figures(page.read_text(), text))


def with_figures(page: str, text: str) -> str:
    """Replace the text between the marks of a page.

    >>> with_figures(f"a\\n{BEGIN}\\nold\\n{END}\\nz", "new") == f"a\\n{BEGIN}\\n\\nnew\\n\\n{END}\\nz"
    True
    """
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def figures(kept: Mapping[str, Kept]) -> str:
    """Picture, machine and tables."""
    picture = f"![Latency, drain rate, requests a second and growth, as in the tables below]({CHART})"
    shown = {section: kept[section] for section in TITLES if section in kept}
    sections = [f"## {TITLES[section]}\n\n{one.body()}" for section, one in shown.items()]
    return "\n\n".join([picture, runs(shown), *sections])


def runs(kept: Mapping[str, Kept]) -> str:
    """The time and the machine of each section's run."""
    machines = dict.fromkeys(one.machine.hardware for one in kept.values())
    rows = [
        [section, f"{one.at:%Y-%m-%d %H:%M}", one.machine.commit, str(one.machine.load_at_start)]
        for section, one in kept.items()
    ]
    table = Table(["section", "UTC", "commit", "load at start"], rows).markdown()
    busy = any(one.machine.warning for section, one in kept.items() if section not in UNTIMED)
    return "\n\n".join([*machines, table, *([BUSY] if busy else [])])
