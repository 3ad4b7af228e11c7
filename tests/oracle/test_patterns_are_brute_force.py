"""Random patterns over random events: the automaton emits what the definition says, under every strategy."""

from collections.abc import Iterator
from random import Random

import pytest

from headrace.operators.operator import InputEvent
from headrace.operators.patterns.match_state import PartialMatch, matched_events
from headrace.operators.patterns.matcher import EndedMatch, PatternMatcher
from tests.oracle.random_sequences import STRATEGIES, events, question, sequence, values
from tests.oracle.sequences import Chain, Definition, Event


def found(matching: PatternMatcher, happened: list[Event]) -> tuple[list[Chain], list[Chain]]:
    """The matches and time-outs that the automaton emits."""
    runs: list[PartialMatch] = []
    told: list[EndedMatch] = []
    for number, event in enumerate(happened):
        told += passed(matching, runs, event.time - 1)
        arrived = InputEvent(0, number, event.time, event.time, 0, number, values(event, number))
        told += matching.process_event(runs, matching.evaluator.to_pattern_event(arrived))
    told += passed(matching, runs, 1_000)
    return chains(told, "match"), chains(told, "within")


def passed(matching: PatternMatcher, runs: list[PartialMatch], until_us: int) -> Iterator[EndedMatch]:
    while runs and (deadline_us := matching.deadline_us(runs[0].start)) <= until_us:
        yield from matching.expire_matches(runs, deadline_us)


def chains(told: list[EndedMatch], why: str) -> list[Chain]:
    taken = [matched_events(one.partial_match.last_event) for one in told if one.reason == why]
    return [tuple((one.event.offset, one.step) for one in whole) for whole in taken]


def compared(seed: int, patterns: int, sequences: int) -> dict[str, int]:
    """How many matches and time-outs there were, in patterns and sequences of which all are as defined."""
    random, counted = Random(seed), dict.fromkeys(STRATEGIES, 0) | {"timeouts": 0, "different": 0}
    for _ in range(patterns):
        asked = question(random)
        matchings = {after: PatternMatcher(sequence(asked, after)) for after in STRATEGIES}
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
