"""What a server has counted, in plain numbers: so that several processes of one server can be told of as one."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.declare.catalogue import APPLY_SECONDS
from headrace.serve.tallies import PredictionTally, Tally
from headrace.store.delays import Delays
from headrace.store.memory import Table


@dataclass
class TableCount:
    """Of a view's table: records that were no tiles, and how soon tiles were known."""

    refused: int = 0
    delays: Delays = field(default_factory=lambda: Delays(APPLY_SECONDS))


@dataclass
class Counted:
    """The counts of one process, or of several: requests by path, predictions by model, tables by view."""

    requests: dict[str, Tally] = field(default_factory=dict)
    predictions: dict[str, PredictionTally] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    tables: dict[str, TableCount] = field(default_factory=dict)

    @classmethod
    def together(cls, several: Iterable[Self]) -> Self:
        """The counts of several processes as one's.

        Each of them reads the same changelogs, so what one of them found no tile is no tile to the others.
        """
        sum_of = cls()
        for one in several:
            for path, tally in one.requests.items():
                sum_of.requests.setdefault(path, Tally()).add_all(tally)
            for model, made in one.predictions.items():
                sum_of.predictions.setdefault(model, PredictionTally()).add_all(made)
            sum_of.lost.update(one.lost)
            for view, table in one.tables.items():
                found = sum_of.tables.setdefault(view, TableCount())
                found.refused = max(found.refused, table.refused)
                found.delays.add_all(table.delays.counts, table.delays.total_seconds)
        return sum_of

    def written(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "requests": [
                [path, list(tally.statuses.items()), tally.delays.counts, tally.delays.total_seconds]
                for path, tally in self.requests.items()
            ],
            "predictions": [[model, one.scored, one.degraded] for model, one in self.predictions.items()],
            "lost": self.lost,
            "tables": [
                [view, one.refused, one.delays.counts, one.delays.total_seconds] for view, one in self.tables.items()
            ],
        }

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """What was written."""
        counted = cls(lost=Counter(written["lost"]))
        for path, statuses, counts, seconds in written["requests"]:
            tally = counted.requests[path] = Tally()
            tally.statuses.update(dict(statuses))
            tally.delays.add_all(counts, seconds)
        for model, scored, degraded in written["predictions"]:
            made = counted.predictions[model] = PredictionTally()
            made.scored, made.degraded = scored, Counter(degraded)
        for view, refused, counts, seconds in written["tables"]:
            table = counted.tables[view] = TableCount(refused)
            table.delays.add_all(counts, seconds)
        return counted


def count_of(table: Table) -> TableCount:
    """The counts of a table of this process."""
    return TableCount(table.refused, table.delays)
