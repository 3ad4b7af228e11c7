"""The result of a section: tables and goals for readers, figures for the chart, and the machine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from bench.machine import Machine


@dataclass(frozen=True)
class Table:
    """A table of text; the first column names the row."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table as Markdown, with columns aligned for reading in a terminal.

        >>> print(Table(["", "P50"], [["real-time", "9.1 ms"]]).markdown())
        |           |    P50 |
        | --------- | -----: |
        | real-time | 9.1 ms |
        """
        lines = [self.head, *self.rows]
        widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(self.head))]
        rule = ["-" * width if column == 0 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
        return "\n".join(_line(line, widths) for line in (self.head, rule, *self.rows))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


@dataclass(frozen=True)
class Goal:
    """A target and the actual value."""

    wanted: str
    found: str
    met: bool

    def __str__(self) -> str:
        return f"{'met' if self.met else 'MISSED'}: {self.wanted}; found {self.found}"


@dataclass(frozen=True)
class Result:
    """The result of one section."""

    section: str
    table: Table
    figures: Mapping[str, Any]
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Kept:
    """A saved result, with its time and machine."""

    result: Result
    machine: Machine
    at: datetime
    quick: bool = field(default=False)

    @property
    def name(self) -> str:
        return f"{self.at:%Y-%m-%d}-{self.result.section}"

    def markdown(self) -> str:
        """The whole page of a result."""
        title = f"# {self.result.section}, {self.at:%Y-%m-%d %H:%M} UTC{', quick run' if self.quick else ''}"
        return f"{title}\n\n{self.machine.markdown()}\n\n{self.body()}\n"

    def body(self) -> str:
        """Table, goals and notes."""
        goals = "\n".join(f"- {goal}" for goal in self.result.goals)
        notes = "\n".join(self.result.notes)
        return "\n\n".join(part for part in (self.result.table.markdown(), goals, notes) if part)

    def keep(self, folder: Path) -> Path:
        """Write it as JSON and as Markdown; a later run of the same day replaces it."""
        folder.mkdir(parents=True, exist_ok=True)
        written = {**asdict(self), "at": self.at.isoformat()}
        (folder / f"{self.name}.json").write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n")
        page = folder / f"{self.name}.md"
        page.write_text(self.markdown())
        return page

    @classmethod
    def load(cls, file: Path) -> Self:
        """Load a saved result."""
        written = json.loads(file.read_text())
        result = written["result"]
        return cls(
            result=Result(
                section=result["section"],
                table=Table(**result["table"]),
                figures=result["figures"],
                goals=[Goal(**goal) for goal in result["goals"]],
                notes=result["notes"],
            ),
            machine=Machine(**written["machine"]),
            at=datetime.fromisoformat(written["at"]),
            quick=written["quick"],
        )


def latest(folder: Path) -> dict[str, Kept]:
    """The newest saved result of each section."""
    kept = [Kept.load(file) for file in folder.glob("*.json")]
    return {one.result.section: one for one in sorted(kept, key=lambda one: one.at)}
