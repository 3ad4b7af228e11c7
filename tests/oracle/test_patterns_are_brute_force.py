"""Random patterns over random events: the automaton tells what the definition says, under every strategy."""

from collections.abc import Iterator
from functools import cache
from math import inf
from random import Random

import pytest

from headrace.declare.expressions import Expression, parse
from headrace.declare.schema import parse_schema
from headrace.declare.sequence import Never, Sequence, Step, readable
from headrace.operators.matching import Ended, Matching
from headrace.operators.operator import Arrived
from headrace.operators.taking import Run, events_of
from tests.oracle.sequences import Chain, Condition, Definition, Event, Question, Unwanted, Wanted

LETTERS, NEARS = "abcd", ("then", "next", "then_any")
SCHEMA = parse_schema("x string, n bigint", "test")
STRATEGIES = ("skip_past_last", "skip_to_next", "no_skip")


def question(random: Random) -> Question:
    """A pattern drawn from the grammar."""
    size = random.choice([1, 2, 2, 3, 3, 4])
    steps = tuple(wanted(random, number) for number in range(size))
    befores = sorted(random.randint(1, size) for _ in range(random.choice([0, 0, 1, 1, 2])))
    nevers = tuple(Unwanted(condition(random, size, 1), before) for before in befores)
    return Question(steps, nevers, random.choice([0, 2, 4, 8, 20]))


def wanted(random: Random, number: int) -> Wanted:
    least, most = random.choice([(1, 1), (1, 1), (1, inf), (2, 2), (2, 3), (1, 3), (2, inf)])
    return Wanted(
        condition(random, number + 1, random.choice([1, 2, 3])),
        random.choice(NEARS),
        least,
        most,
        random.choice(NEARS),
        optional=number > 0 and random.random() < 0.25,
        reluctant=random.random() < 0.3,
    )


def condition(random: Random, steps: int, size: int) -> Condition:
    letters = "".join(random.sample(LETTERS, size))
    if random.random() < 0.15:
        return Condition(letters, random.choice(["first", "last"]), random.randrange(steps))
    return Condition(letters)


def events(random: Random) -> list[Event]:
    """Some events in order, often several at one time."""
    times = sorted(random.randint(0, 9) for _ in range(random.randint(0, 7)))
    letters = LETTERS[: random.choice([2, 3, 4])]
    return [Event(time, random.choice(letters), random.randint(0, 3)) for time in times]


@cache
def expression(condition: Condition, steps: int) -> Expression:
    text = f"x in ({', '.join(map(repr, condition.letters))})"
    if condition.which is not None:
        text += f" and n > {condition.which}(s{condition.step}.n)"
    return parse(text, readable(SCHEMA, [f"s{number}" for number in range(steps)]), "test")


def sequence(asked: Question, after: str) -> Sequence:
    size = len(asked.steps)
    steps = [
        Step(
            f"s{number}", expression(one.condition, size), one.near, one.least, upper(one),
            one.repeat, one.optional, one.reluctant,
        )
        for number, one in enumerate(asked.steps)
    ]  # fmt: skip
    nevers = [Never(f"v{n}", expression(one.condition, size), one.before) for n, one in enumerate(asked.nevers)]
    return Sequence("t", "t", ("k",), SCHEMA, tuple(steps), tuple(nevers), asked.within, after, 0, 10_000)


def upper(one: Wanted) -> int | None:
    return None if one.most == inf else int(one.most)


def found(matching: Matching, happened: list[Event]) -> tuple[list[Chain], list[Chain]]:
    """What the automaton tells: matches, and time-outs."""
    runs: list[Run] = []
    told: list[Ended] = []
    for number, event in enumerate(happened):
        told += passed(matching, runs, event.time - 1)
        arrived = Arrived(0, number, event.time, event.time, 0, number, {"x": event.letter, "n": event.number})
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
    counted = compared(seed=9, patterns=20_000, sequences=10)
    assert min(counted.values()) > 10_000, counted
