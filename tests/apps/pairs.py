"""Chooses the apps of the zoo: `python -m tests.apps.pairs` rewrites apps.csv, the same for the same factors.

Greedy: of some rows that begin with a pair that no app has yet, and add what they can value by value, the one with
most new pairs is taken.
"""

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.apps.domains import DOMAINS
from tests.apps.factors import (
    EXCLUSIONS,
    FACTORS,
    OF_APPS,
    OF_VIEWS,
    VIEWS,
    Pair,
    Row,
    is_possible,
    pairs_of,
    possible_pairs,
)

TABLE = Path(__file__).with_name("apps.csv")
SEED, DRAWS = 3, 100
Slot = tuple[int, str]  # 0 for what the app chooses, else the number of the view that does; and the factor
SLOTS: tuple[Slot, ...] = (*((0, one) for one in OF_APPS), *((n + 1, one) for n in range(VIEWS) for one in OF_VIEWS))
EXCLUDED = {one.pair for one in EXCLUSIONS}
COLUMNS = ("domain", *OF_APPS, *(f"view_{number}_{name}" for number in (1, 2) for name in OF_VIEWS))


def read_rows(file: Path = TABLE) -> list[Row]:
    """The apps of the zoo."""
    with file.open(newline="") as lines:
        return [_row(line) for line in csv.DictReader(lines)]


def _row(line: dict[str, str]) -> Row:
    views = [tuple((factor, line[f"view_{number}_{factor}"]) for factor in OF_VIEWS) for number in range(1, VIEWS + 1)]
    return Row(line["domain"], tuple((factor, line[factor]) for factor in OF_APPS), tuple(views))


def write_rows(rows: Iterable[Row], file: Path = TABLE) -> None:
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            told = [value for _, value in (*row.values, *(one for view in row.views for one in view))]
            writer.writerow([row.domain, *told])


def chosen_rows(domains: Sequence[str] = tuple(DOMAINS)) -> list[Row]:
    """Rows that have every possible pair between them."""
    dice, missing, rows = random.Random(SEED), possible_pairs(), list[Row]()
    while missing:
        drawn = [_drawn(dice, missing, domains[len(rows)]) for _ in range(DRAWS)]
        best = max(drawn, key=lambda row: len(pairs_of(row) & missing) if is_possible(row) else -1)
        missing -= pairs_of(best)
        rows.append(best)
    return rows


def _drawn(dice: random.Random, missing: set[Pair], domain: str) -> Row:
    """A row that begins with one of the missing pairs; the other factors, in any order, add most to what is there."""
    wanted = dict(dice.choice(sorted(map(sorted, missing))))
    filled: dict[Slot, str] = {_slot(factor): value for factor, value in wanted.items()}
    others = [slot for slot in SLOTS if slot not in filled]
    for slot in dice.sample(others, len(others)):
        filled[slot] = _best_value(dice, slot, filled, missing)
    values = tuple((factor, filled[0, factor]) for factor in OF_APPS)
    views = [tuple((factor, filled[number, factor]) for factor in OF_VIEWS) for number in range(1, VIEWS + 1)]
    return Row(domain, values, tuple(views))


def _slot(factor: str) -> Slot:
    return int(factor in OF_VIEWS), factor


def _best_value(dice: random.Random, slot: Slot, filled: dict[Slot, str], missing: set[Pair]) -> str:
    """The value that makes most missing pairs with what is chosen; one of an excluded pair only where all are."""
    place, factor = slot
    beside = [(other, value) for (at, other), value in filled.items() if 0 in (at, place) or at == place]

    def worth(value: str) -> tuple[bool, int, float]:
        pairs = {frozenset(((factor, value), one)) for one in beside}
        return not pairs & EXCLUDED, len(pairs & missing), dice.random()

    return max(FACTORS[factor], key=worth)


if __name__ == "__main__":
    write_rows(chosen_rows())
