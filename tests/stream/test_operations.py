"""A changed operation is refused with its line; a rebuild begins anew, and reaches everything that is made of it."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.declare.derivation import Derived, Operation
from headrace.declare.source_lines import Written
from headrace.stream.checkpoints import write_whole
from headrace.stream.generations import ChangedDefinition
from headrace.stream.operations import plan_run, possible_runs, rebuilt, terms_of


@dataclass(frozen=True)
class What:
    size_us: int
    more: Any = None


MINUTE = What(60)


def stream(name: str, columns: str = "amount double", **settings: Any) -> hr.Stream:
    schema = f"id string, card string, at timestamp, {columns}"
    return hr.Stream(name, schema=schema, id="id", key="card", time="at", **settings)


def operation(name: str, *inputs: hr.Stream, what: Any = MINUTE, line: int = 7) -> Operation:
    return Operation(name, inputs, Written("app.py", line), (("card",),) * len(inputs), what, idle_us=1)


def derived(made_by: Operation) -> Derived:
    schema = "id string, card string, at timestamp, known_at timestamp"
    return Derived(made_by.name, made_by=made_by, schema=schema, id="id", key="card", time="at", arrival="known_at")


def keep(state: Path, one: Operation, number: int = 1) -> None:
    kept = {"number": number, "terms": terms_of(one), "since_us": None}
    write_whole(state / "operations" / f"{one.name}.json", json.dumps(kept))


PAYMENTS = stream("payments")


def test_a_first_run_begins_and_an_unchanged_one_goes_on_wherever_it_is_written(tmp_path: Path) -> None:
    assert plan_run(operation("spend", PAYMENTS), tmp_path).number == 1
    keep(tmp_path, operation("spend", PAYMENTS), number=3)
    moved = replace(operation("spend", PAYMENTS, line=99), idle_us=12345)
    run = plan_run(moved, tmp_path)
    assert (run.number, run.refused, run.changes) == (3, (), ())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (operation("spend", PAYMENTS, what=What(120)), "what.size_us was 60, is 120"),
        (operation("spend", stream("payments", "amount bigint")), "inputs[0].columns.amount was double, is bigint"),
        (operation("spend", stream("payments", late=hr.Late("2h"))), "inputs[0].late.after_us was 3600000000"),
        (replace(operation("spend", PAYMENTS), by=(("id",),)), "by[0][0] was card, is id"),
        (operation("spend", PAYMENTS, stream("rates")), "by was [['card']], is [['card'], ['card']]"),
    ],
)
def test_a_changed_operation_is_refused_with_its_line_the_change_and_what_to_do(
    tmp_path: Path, changed: Operation, words: str
) -> None:
    keep(tmp_path, operation("spend", PAYMENTS))
    app = App("app", (*changed.inputs, derived(changed)), ())
    with pytest.raises(ChangedDefinition, match=r"^app\.py:7: spend has changed") as refused:
        possible_runs(app, tmp_path)
    assert words in str(refused.value)
    assert "--rebuild spend" in str(refused.value)
    assert "--from-savepoint" in str(refused.value)
    (run,) = possible_runs(app, tmp_path, {"spend"}, since_us=5)
    assert (run.number, run.since_us, run.terms) == (2, 5, terms_of(changed))


def test_a_rebuild_reaches_what_is_made_of_it_and_nothing_else() -> None:
    spend, other = operation("spend", PAYMENTS), operation("other", PAYMENTS)
    bursts = operation("bursts", derived(spend))
    app = App("app", (PAYMENTS, derived(spend), derived(other), derived(bursts)), ())
    assert rebuilt(app, {"spend"}) == {"spend", "bursts"}
    assert rebuilt(app, {"bursts"}) == {"bursts"}
    assert rebuilt(app, {"payments"}) == {"payments"}, "the views of a stream that comes from outside, as before"


def test_terms_are_plain_values_and_tell_functions_by_what_they_do() -> None:
    def told(function: Any) -> Any:
        return json.loads(json.dumps(terms_of(operation("spend", PAYMENTS, what=What(60, function)))))["what"]["more"]

    assert told(lambda n: n + 1) == told(lambda n: n + 1)
    assert told(lambda n: n + 1) != told(lambda n: n + 2)
