"""Random patterns over random events: the automaton tells what the definition says, under every strategy."""

from collections.abc import Iterator
from random import Random

import pytest

from headrace.operators.matching import Ended, Matching
from headrace.operators.operator import Arrived
from headrace.operators.taking import Run, events_of
from tests.oracle.sequences import Chain, Definition, Event
from tests.oracle.sequences_at_random import STRATEGIES, events, question, sequence, values


def found(matching: Matching, happened: list[Event]) -> tuple[list[Chain], list[Chain]]:
    """What the automaton tells: matches, and time-outs."""
    runs: list[Run] = []
    told: list[Ended] = []
    for number, event in enumerate(happened):
        told += passed(matching, runs, event.time - 1)
        arrived = Arrived(0, number, event.time, event.time, 0, number, values(event, number))
        told += matching.feed(runs, matching.taker.seen(arrived))
    told += passed(matching, runs, 1_000)
    return chains(told, "match"), chains(told, "within")


def passed(matching: Matching, runs: list[Run], until_us: int) -> Iterator[Ended]:
    while runs and (deadline_us := matching.deadline_us(runs[0].start)) <= until_us:
        yield from matching.expire(runs, deadline_us)


def chains(told: list[Ended], why: str) -> list[Chain]:
    taken = [events_of(one.run.taken) for one in told if one.why == why]
    return [tuple((one.event.offset, one.step) for one in whole) for whole in taken]


def compared(seed: int, patterns: int, sequences: int) -> dict[str, int]:
    """How many matches and time-outs there were, in patterns and sequences of which all are as defined."""
    random, counted = Random(seed), dict.fromkeys(STRATEGIES, 0) | {"timeouts": 0, "different": 0}
    for _ in range(patterns):
        asked = question(random)
        matchings = {after: Matching(sequence(asked, after)) for after in STRATEGIES}
        for _ in range(sequences):
            happened = events(random)
            definition = Definition(asked, happened)
            for after, matching in matchings.items():
                expected = definition.matches(after), definition.timeouts(after)
                assert found(matching, happened) == expected, (after, asked, happened)
                counted[after] += len(expected[0])
                counted["timeouts"] += len(expected[1])
            counted["different"] += len({tuple(definition.matches(after)) for after in STRATEGIES}) > 1
    return counted


def test_the_automaton_tells_what_the_definition_says() -> None:
    counted = compared(seed=8, patterns=1_000, sequences=10)
    assert min(counted.values()) > 500, counted


@pytest.mark.faults
def test_the_automaton_tells_what_the_definition_says_of_very_many() -> None:
    counted = compared(seed=9, patterns=10_000, sequences=10)
    assert min(counted.values()) > 10_000, counted
