"""The chart of the saved results: one panel per section, readable on light and dark pages."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter

from bench.results import Kept

# Stand-ins that matplotlib draws with; in the file each is a variable, which a dark page gives another value.
INK, SOFT, EDGE, PAPER = "#1d2733", "#5d6977", "#dfe3e8", "#ffffff"
BLUE, ORANGE, GREEN, GREY = "#3f7fd6", "#cf7c22", "#2b9458", "#8a96a3"
VARIABLES = {
    INK: ("ink", "#e8ecf1"),
    SOFT: ("soft", "#9ba8b6"),
    EDGE: ("edge", "#2b343e"),
    PAPER: ("paper", "#12171d"),
    BLUE: ("blue", "#5f9ff2"),
    ORANGE: ("orange", "#e6a04e"),
    GREEN: ("green", "#4cc17c"),
    GREY: ("grey", "#6f7d8b"),
}
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "headrace",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": EDGE,
    "xtick.color": SOFT,
    "ytick.color": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
COLOURS = {"real-time": BLUE, "micro-batch": ORANGE, "constant": GREY, "memory": BLUE, "Redis": GREEN}
Figures = Mapping[str, Any]


def _number(value: float, _place: object = None) -> str:
    """A number as a label of a bar or an axis: 9.1, 12,500."""
    return f"{value:,.1f}" if value < 100 and value % 1 else f"{value:,.0f}"


NUMBERS = FuncFormatter(_number)


def draw(kept: Mapping[str, Kept]) -> str:
    """The chart as SVG; sections without a result have no panel."""
    drawn = [section for section in PANELS if section in kept]
    with mpl.rc_context(SETTINGS):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, wspace=0.06, hspace=0.08)
        figure = Figure(figsize=(11.25, 3.3 * ((len(drawn) + 1) // 2)), facecolor=PAPER, layout=layout)
        for number, section in enumerate(drawn):
            axes = figure.add_subplot((len(drawn) + 1) // 2, 2, number + 1, facecolor=PAPER)
            PANELS[section](axes, kept[section].result.figures)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Title": "Headrace, measured"})
    return themed(text.getvalue())


def themed(svg: str) -> str:
    """The drawing with variables for colours, and the font of its page."""
    for stand_in, (name, _) in VARIABLES.items():
        svg = svg.replace(stand_in, f"var(--{name})")
    light = " ".join(f"--{name}: {stand_in};" for stand_in, (name, _) in VARIABLES.items())
    dark = " ".join(f"--{name}: {value};" for name, value in VARIABLES.values())
    style = (
        f"svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }} "
        f"text {{ font-family: {FONT} !important; }}"
    )
    return re.sub(r"<defs>", f"<style>{style}</style>\n <defs>", svg, count=1)


def _latency(axes: Axes, figures: Figures) -> None:
    bars = [(lane, rate, spread) for lane, by_rate in figures.items() for rate, spread in by_rate.items()]
    names = [f"{lane}\n{rate} events/s" for lane, rate, _ in bars]
    _bars(axes, names, [spread["p50"] for *_, spread in bars], [COLOURS[lane] for lane, *_ in bars])
    for place, (*_, spread) in enumerate(bars):
        axes.plot([spread["p50"], spread["p99"]], [place, place], color=GREY, linewidth=1.2, zorder=1)
        axes.plot(spread["p99"], place, "|", color=GREY, markersize=9)
        axes.annotate(_number(spread["p50"]), (spread["p50"], place), (5, 7), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_xlim(left=1)
    axes.xaxis.set_major_formatter(NUMBERS)
    axes.set_xlabel("ms at P50, line to P99")
    axes.set_title("Producer to HTTP answer")


def _drain(axes: Axes, figures: Figures) -> None:
    seconds = {
        "gate and tiles": figures["stream"]["seconds"],
        "plain Spark batch\nnew JVM": figures["batch"]["first_seconds"],
        "plain Spark batch\nagain": figures["batch"]["second_seconds"],
    }
    _rates(axes, {name: figures["count"] / took for name, took in seconds.items()}, "events/s")
    axes.set_title(f"A backlog of {figures['count']:,} events")


def _rates(axes: Axes, rates: Mapping[str, float], unit: str, ours: int = 1) -> None:
    """Ours in blue, then the others, each with its number."""
    _bars(axes, list(rates), list(rates.values()), [BLUE] * ours + [GREY] * (len(rates) - ours))
    for place, rate in enumerate(rates.values()):
        axes.annotate(_number(rate), (rate, place), (5, -4), textcoords="offset points")
    axes.set_xlim(0, max(rates.values()) * 1.2)
    axes.xaxis.set_major_formatter(NUMBERS)
    axes.set_xlabel(unit)


def _bars(axes: Axes, names: Sequence[str], values: Sequence[float], colours: Sequence[str]) -> None:
    axes.barh(range(len(names)), values, color=colours, height=0.6, zorder=2)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _serve(axes: Axes, figures: Figures) -> None:
    names = [name for name in next(iter(figures.values())) if name in COLOURS]
    for number, name in enumerate(names):
        rates = [by_name[name]["answered"]["requests_a_second"] for by_name in figures.values()]
        places = [place + (number - 1) * 0.27 for place in range(len(rates))]
        axes.bar(places, rates, width=0.25, color=COLOURS[name], label=name)
        for place, rate, by_name in zip(places, rates, figures.values(), strict=True):
            share = "" if name == "constant" else f"{by_name[name]['share']:.0%}"
            axes.annotate(share, (place, rate), (0, 3), textcoords="offset points", ha="center", color=SOFT)
    axes.set_xticks(range(len(figures)), list(figures))
    axes.tick_params(axis="x", length=0)
    axes.yaxis.set_major_formatter(NUMBERS)
    axes.set_xlabel("connections")
    axes.set_ylabel("requests/s")
    axes.set_title("/features, ten features over three windows")
    axes.legend(loc="upper left", ncols=3)
    axes.margins(y=0.22)


def _growth(axes: Axes, figures: Figures) -> None:
    stores: dict[str, list[Figures]] = {}
    for one in figures["stores"]:
        stores.setdefault(one["store"], []).append(one)
    for store, sizes in stores.items():
        rates = [one["answered"]["requests_a_second"] for one in sizes]
        cards = [one["filled"]["cards"] for one in sizes]
        label = f"{store}, {sizes[-1]['bytes_a_card'] / 1000:.1f} kB a card"
        axes.plot(cards, rates, "o-", color=COLOURS[store], label=label)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(NUMBERS)
    axes.yaxis.set_major_formatter(NUMBERS)
    axes.set_xlabel("cards")
    axes.set_ylabel("requests/s")
    axes.set_title("As the store grows")
    axes.legend(loc="lower left")


def _training(axes: Axes, figures: Figures) -> None:
    """The largest dense case: rows a second of each way."""
    (case,) = [one for one in figures["cases"] if one["sql_seconds"]][-1:]
    ways = {"Headrace": "headrace_seconds", "Spark SQL\nrange join": "sql_seconds", "DuckDB": "duckdb_seconds"}
    _rates(axes, {name: case["rows"] / case[seconds] for name, seconds in ways.items()}, "rows/s")
    axes.set_title(f"Training set from {case['case']['events']:,} events")


def _anchor(axes: Axes, figures: Figures) -> None:
    names = ["memory", "Redis", "/predict", "Feast"]
    _rates(axes, {name: figures[name]["answered"]["requests_a_second"] for name in names}, "requests/s", ours=3)
    axes.set_title("One card, ten features, 8 connections")


PANELS: Mapping[str, Callable[[Axes, Figures], None]] = {
    "latency": _latency,
    "drain": _drain,
    "serve": _serve,
    "anchor": _anchor,
    "growth": _growth,
    "training": _training,
}
