"""The output of the demo: a live view on a terminal, plain lines in a pipe, and the table at the end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app import fraud
from decisions import Decided
from payments import Truth
from readings import Delay, Totals
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from verdicts import Judged

from headrace.client.protocol import FeatureRow
from headrace.declare.durations import duration_text

BUDGET = duration_text(fraud.budget_us)
SHOWN = ("payments_10m", "spend_1h", "merchants_1h", "declined_1h", "largest_7d", "country_7d")


@dataclass(frozen=True)
class Moment:
    """The numbers of the running demo at one moment."""

    seconds: int
    rate: float
    lag: int
    totals: Totals
    readable: Delay | None
    applied: Delay | None
    decided: Decided
    judged: Judged
    cards: Sequence[FeatureRow] = ()
    attacked: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """The server's counts, compared with what the demo sent."""

    totals: Totals
    truth: Truth
    probes: int
    requests: int
    values: int
    readable: Delay | None
    applied: Delay | None
    decided: Decided
    judged: Judged
    tested: int
    warm_up_s: int = 0
    rows: list[tuple[str, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        seen, sent = self.totals, self.truth
        reasons = sorted(set(seen.dead) | set(sent.dead))
        rows = [
            ("in", seen.arrived, sent.produced + self.probes),
            ("clean", seen.clean, sent.clean + self.probes),
            ("late", seen.late, sent.late),
            *((f"dead: {reason}", seen.dead.get(reason, 0), sent.dead.get(reason, 0)) for reason in reasons),
            ("duplicates dropped", seen.duplicates, sent.duplicates),
            ("cards tested, then charged", self.tested, sent.trials),
            ("decided", self.decided.count, sent.clean - sent.duplicates + self.probes),
        ]
        object.__setattr__(self, "rows", rows)

    @property
    def agrees(self) -> bool:
        """Whether the server's counts match what was sent."""
        return all(counted == sent for _, counted, sent in self.rows)


def line(moment: Moment) -> str:
    """One moment as one line, for a pipe."""
    totals = moment.totals
    parts = [
        f"{moment.seconds // 60:02d}:{moment.seconds % 60:02d}",
        f"{moment.rate:.0f} ev/s",
        f"lag {moment.lag}",
        f"in {totals.arrived}",
        f"clean {totals.clean}",
        f"late {totals.late}",
        f"dead {sum(totals.dead.values())}",
        f"producer to readable {moment.readable or '-'}",
        f"decided {moment.decided.named}, {_in_time(moment.decided)}, degraded {moment.decided.degraded:,}",
        f"labels {moment.judged.told:,}, {_quality(moment.judged)}",
        *(_card_text(row) for row in moment.cards[:1]),
    ]
    return "  ".join(parts)


def _quality(judged: Judged) -> str:
    """Realised metrics of the model, with those estimated from its scores in brackets."""
    metrics = {"AUC": judged.auc, "recall": judged.recall, "precision": judged.precision}
    parts = (f"{name} {_number(realised)} ({_number(estimated)})" for name, (realised, estimated) in metrics.items())
    coverage = "-" if judged.coverage is None else f"{judged.coverage:.0%}"
    return ", ".join([f"coverage {coverage}", *parts])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _card_text(row: FeatureRow) -> str:
    return f"{row.entity['card']}: payments_10m {row.payments_10m}, spend_1h {_shown(row.spend_1h)}"


def _in_time(decided: Decided) -> str:
    """The latency of decisions, and the model's budget."""
    return f"{decided.latency or '-'} of {BUDGET}"


def live(moment: Moment, url: str) -> RenderableType:
    """One moment as a view for a terminal."""
    clock = f"{moment.seconds // 60:02d}:{moment.seconds % 60:02d}"
    title = Text.assemble(("Headrace ", "bold"), ("fraud demo", "dim"), f"   {url}   {clock}")
    foot = Text("Red: a card under attack. Ctrl-C ends the demo with a summary.", style="dim")
    return Group(Panel(title), _numbers(moment), _decisions(moment), Text(), _cards(moment), Text(), foot)


def _numbers(moment: Moment) -> Table:
    totals = moment.totals
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right") * 2:
        table.add_column(style="dim" if justify == "left" else "", justify=justify)
    table.add_row("events a second", f"{moment.rate:,.0f}", "in", f"{totals.arrived:,}")
    table.add_row("lag", f"{moment.lag:,}", "clean", f"{totals.clean:,}")
    table.add_row("producer to readable", str(moment.readable or "-"), "late", f"{totals.late:,}")
    table.add_row("log to store", str(moment.applied or "-"), "dead", f"{sum(totals.dead.values()):,}")
    return table


def _decisions(moment: Moment) -> Table:
    decided = moment.decided
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_row("decisions", decided.named)
    table.add_row("arrival to decision", f"{_in_time(decided)}, degraded {decided.degraded:,}")
    table.add_row("frauds caught", f"{decided.caught:,} of {decided.frauds:,}")
    table.add_row("labels", f"{moment.judged.told:,} sent so far; outcomes {moment.judged.named or '-'}")
    table.add_row("by labels (by scores)", _quality(moment.judged))
    return table


def _cards(moment: Moment) -> Table:
    table = Table("card", box=None, header_style="dim", pad_edge=False)
    for name in SHOWN:
        table.add_column(name.replace("_", "\n"), justify="right", min_width=9)
    for row in moment.cards:
        card = row.entity["card"]
        style = "bold red" if card in moment.attacked else ""
        table.add_row(card, *(_shown(row.values[name]) for name in SHOWN), style=style)
    return table


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def summary(result: Result) -> Table:
    """The table at the end."""
    table = Table("", "counted", "sent", "", box=None, header_style="dim", pad_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"
    for name, counted, sent in result.rows:
        agrees = counted == sent
        table.add_row(
            name,
            f"{counted:,}",
            f"{sent:,}",
            "=" if agrees else "differs",
            style="" if agrees else "bold red",
        )
    table.add_section()
    table.add_row("features read", f"{result.values:,}", "", f"in {result.requests:,} requests")
    for name, delay in (("producer to readable", result.readable), ("log to store", result.applied)):
        table.add_row(name, f"{delay.count:,}" if delay else "0", "", str(delay or "not measured"))
    decided = result.decided
    for decision, times in decided.by_decision.items():
        table.add_row(f"decision: {decision}", f"{times:,}", "", "")
    table.add_row("frauds caught", f"{decided.caught:,}", f"{decided.frauds:,}", "reviewed or blocked")
    slow = decided.latency
    table.add_row("arrival to decision", f"{slow.count:,}" if slow else "0", "", _in_time(decided))
    table.add_row("degraded", f"{decided.degraded:,}", "", "of these")
    table.add_row("labels", "", f"{result.judged.told:,}", f"outcomes: {result.judged.named or '-'}")
    table.add_row("by labels (by scores)", "", "", _quality(result.judged))
    if result.warm_up_s:
        table.caption = f"Delays exclude the first {result.warm_up_s} s, in which the JVM warms up."
        table.caption_justify = "left"
    return table
