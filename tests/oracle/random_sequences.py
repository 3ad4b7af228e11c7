"""Random patterns and events, in the form of the definition and of the automaton."""

from functools import cache
from math import inf
from random import Random
from typing import Any, get_args

from headrace.declare.expressions import Expression, parse_condition
from headrace.declare.operations.pattern_sequence import (
    Contiguity,
    Never,
    Sequence,
    SkipStrategy,
    Step,
    readable_schema,
)
from headrace.declare.streams.schema import parse_schema
from tests.oracle.sequences import Condition, Event, Question, Unwanted, Wanted

LETTERS, NEARS, STRATEGIES = "abcd", get_args(Contiguity), get_args(SkipStrategy)
SCHEMA = parse_schema("e string, k string, x string, n bigint, at timestamp", "test")


def question(random: Random) -> Question:
    """A pattern drawn from the grammar."""
    size = random.choice([1, 2, 2, 3, 3, 4])
    steps = tuple(wanted(random, number) for number in range(size))
    befores = sorted(random.randint(1, size) for _ in range(random.choice([0, 0, 1, 1, 2])))
    nevers = tuple(Unwanted(condition(random, size, 1), before) for before in befores)
    return Question(steps, nevers, random.choice([0, 2, 4, 8, 20]))


def wanted(random: Random, number: int) -> Wanted:
    least, most = random.choice([(1, 1), (1, 1), (1, inf), (2, 2), (2, 3), (1, 3), (2, inf), (3, 3)])
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
    times = sorted(random.randint(0, 9) for _ in range(random.randint(0, 9)))
    letters = LETTERS[: random.choice([2, 2, 3, 4])]
    return [Event(time, random.choice(letters), random.randint(0, 3)) for time in times]


@cache
def expression(condition: Condition, steps: int) -> Expression:
    text = f"x in ({', '.join(map(repr, condition.letters))})"
    if condition.which is not None:
        text += f" and n > {condition.which}(s{condition.step}.n)"
    return parse_condition(text, readable_schema(SCHEMA, [f"s{number}" for number in range(steps)]), "test")


def sequence(asked: Question, after: Any, patience_us: int = 0, partials: int = 10_000) -> Sequence:
    size = len(asked.steps)
    steps = [
        Step(
            f"s{number}", expression(one.condition, size), one.near, one.least, upper(one),
            one.repeat, one.optional, one.reluctant,
        )
        for number, one in enumerate(asked.steps)
    ]  # fmt: skip
    nevers = [Never(f"v{n}", expression(one.condition, size), one.before) for n, one in enumerate(asked.nevers)]
    asks = (asked.within, after, patience_us, partials)
    return Sequence("t", "t", "s", ("k",), SCHEMA, tuple(steps), tuple(nevers), *asks)


def values(event: Event, number: int) -> dict[str, Any]:
    return {"e": f"e{number}", "k": "k", "x": event.letter, "n": event.number, "at": event.time}


def upper(one: Wanted) -> int | None:
    return None if one.most == inf else int(one.most)
