"""Cases as bytes, as state keeps them."""

import math

import orjson

from headrace.evaluate.outcomes import Case, Label, Scored


def packed(case: Case) -> bytes:
    """The bytes of a case; scores and labels are numbers JSON has, but for NaN, which is null."""
    scored, labels = ([list(one) for one in known.values()] for known in (case.scored, case.labels))
    return orjson.dumps([case.clock_us, scored, labels])


def unpacked(value: bytes) -> Case:
    """What `packed` wrote."""
    clock_us, scored, labels = orjson.loads(value)
    case = Case(clock_us)
    for version, role, score, *rest in scored:
        case.take(Scored(version, role, math.nan if score is None else score, *rest))
    for label in labels:
        case.hear(Label(*label))
    return case
