"""Matches under way as JSON: each event once, each beginning that several share once, and where each match stands."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.operators.matching import Matching
from headrace.operators.taking import Run, Seen, Start, Taken

Packed = dict[str, Any]


def pack(pending: list[Seen], runs: list[Run]) -> Packed:
    """Events that wait, and matches under way."""
    nodes = list(_nodes(runs))
    numbers = {id(one): number for number, one in enumerate(nodes)}
    events = {one.event.place: one.event for one in nodes}
    places = {place: number for number, place in enumerate(events)}
    return {
        "pending": [_written(one) for one in pending],
        "events": [_written(one) for one in events.values()],
        "taken": [[places[one.event.place], one.step, numbers.get(id(one.before))] for one in nodes],
        "runs": [[numbers[id(run.taken)], run.waiting.is_open, run.start.is_told] for run in runs],
    }


def unpack(packed: Packed, matching: Matching) -> tuple[list[Seen], list[Run]]:
    """What was packed, in the same order."""
    events = [_read(*one) for one in packed["events"]]
    taken, starts = list[Taken](), list[Start]()
    for event, step, before in packed["taken"]:
        taken.append(matching.taker.taken(events[event], step, None if before is None else taken[before]))
        starts.append(Start(events[event]) if before is None else starts[before])
    runs = []
    for number, is_open, starts[number].is_told in packed["runs"]:
        waiting = matching.automaton.waiting(taken[number].step, tuple(is_open))
        runs.append(Run(starts[number], taken[number], waiting))
    return [_read(*one) for one in packed["pending"]], runs


def _nodes(runs: Iterable[Run]) -> Iterator[Taken]:
    """All that was taken, each once, after what was taken before it."""
    known: set[int] = set()
    for run in runs:
        fresh = list[Taken]()
        one: Taken | None = run.taken
        while one is not None and id(one) not in known:
            known.add(id(one))
            fresh.append(one)
            one = one.before
        yield from reversed(fresh)


def _written(seen: Seen) -> list[Any]:
    """An event; JSON has no number for what is not a number, so its name stands in a list."""
    values = [[str(one)] if isinstance(one, float) and not math.isfinite(one) else one for one in seen.values]
    return [*seen[:5], values]


def _read(time_us: int, partition: int, offset: int, name: Any, held: int, values: list[Any]) -> Seen:
    numbers = tuple(float(one[0]) if isinstance(one, list) else one for one in values)
    return Seen(time_us, partition, offset, name, held, numbers)
