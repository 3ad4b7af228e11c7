"""Declared patterns: their steps and streams, and their errors with the line."""

import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import build_app
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.operations.pattern import Pattern
from headrace.declare.operations.pattern_sequence import Sequence

DOCS = Path(__file__).parents[3] / "docs/patterns.md"
LOGINS = hr.Stream(
    "logins",
    schema="id string, user string, ok boolean, ip string, score double, at timestamp",
    id="id",
    key="user",
    time="at",
    late=hr.Late("2m"),
)
CORRECTED = hr.Stream(
    "corrected",
    schema="id string, user string, ok boolean, at timestamp",
    id="id",
    key="user",
    time="at",
    late=hr.Late("2m", then="update", until="1d"),
)


def begun(**settings: Any) -> Pattern:
    return hr.pattern("a b", **({"by": "user", "within": "10m"} | settings)).step("fail", where="not ok")


def sequence_of(pattern: Pattern) -> Sequence:
    made_by = pattern.on(LOGINS).out.made_by
    assert isinstance(made_by, StreamOperation)
    assert isinstance(made_by.spec, Sequence)
    return made_by.spec


def test_the_examples_of_the_docs_declare_what_they_say() -> None:
    declared: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        exec(example, declared)
    assert declared["guessed"].out.name == "guessed"
    assert "success_ip" in declared["guessed"].out.schema
    assert declared["tested"].out.schema.column("large_amount", "").type == "double"
    assert declared["unpaid"].out.name == "never_paid"


def test_a_pattern_gives_three_streams_of_one_operation() -> None:
    out, timeouts, late = begun(by=["user", "ip"]).on(LOGINS)
    assert [out.name, timeouts.name, late and late.name] == ["a_b", "a_b_timeouts", "a_b_late"]
    assert {stream.made_by for stream in (out, timeouts, late) if isinstance(stream, DerivedStream)} == {out.made_by}
    assert out.schema.names[:7] == ("id", "user", "ip", "pattern", "started_at", "ended_at", "known_at")
    assert timeouts.schema.names == (*out.schema.names, "reached", "why")
    assert late is not None
    assert late.schema.names == ("id", "logins_id", "user", "ok", "ip", "score", "at", "known_at")


def test_what_is_derived_is_in_time_for_its_own_gate() -> None:
    out, timeouts, late = begun(late=hr.Late("30s")).on(LOGINS)
    assert out.late.after_us == timeouts.late.after_us == 30_001_000
    assert late is not None
    assert late.late.after_us == LOGINS.late.until_us


@pytest.mark.shows("pattern", late="drop")
def test_there_is_no_stream_of_late_events_where_they_are_dropped() -> None:
    assert begun(late=hr.Late("1m", then="drop")).on(LOGINS).late is None


def test_a_pattern_waits_no_longer_than_the_gate_lets_events_be_late() -> None:
    assert sequence_of(begun(late=hr.Late("1h"))).patience_us == LOGINS.late.until_us


def test_one_column_that_is_kept_needs_no_list() -> None:
    assert sequence_of(begun().then("ok", where="ok", keep="ip")).steps[1].keep == ("ip",)


def test_an_app_has_the_streams_of_its_patterns() -> None:
    module = ModuleType("shop")
    module.guessed = begun().on(LOGINS)  # type: ignore[attr-defined]
    assert [stream.name for stream in build_app(module).streams] == ["logins", "a_b", "a_b_timeouts", "a_b_late"]


def test_only_columns_that_are_read_later_or_told_are_kept() -> None:
    pattern = begun().then("high", where="score > first(fail.score) and ok").then("last", where="id <> ''", keep=["ip"])
    assert sequence_of(pattern).retained_columns == ("ok", "ip", "score")


@pytest.mark.refuses("pattern", late="update")
@pytest.mark.parametrize(
    ("write", "refused"),
    [
        (lambda: begun(late=hr.Late("1m", then="update", until="1h")).on(LOGINS), 'Write late=hr.Late("2m", then='),
        (lambda: begun().on(CORRECTED), "then=\"update\" would change matches that were emitted"),
        (lambda: begun().on("logins"), "on 'logins'. Give it an hr.Stream"),
        (lambda: begun().then("fail", where="ok"), "step 'fail': there is one of that name before it"),
        (lambda: begun().then("a b"), "step 'a b': its name becomes columns"),
        (lambda: begun().step("b"), "has begun with 'fail'. Write .then(…)"),
        (lambda: begun().then("b", times=0), "times=0. Write a number, such as 3"),
        (lambda: begun().then("b", times=(3, 2)), "times=(3, 2). Write"),
        (lambda: begun().then("b", times="0+"), "optional=True"),
        (lambda: begun().then("b", time=3), "step 'b': time= is no setting of a step. These are: times, "),
        (lambda: begun().then("b", repeat="often"), "repeat='often'"),
        (lambda: begun().then("b", where="ip").on(LOGINS), "step 'b': where: 'ip' is not a condition"),
        (lambda: begun().then("b", where="okay").on(LOGINS), "no column 'okay'. The schema's columns are id, user, "),
        (lambda: begun().then("b", keep=["port"]).on(LOGINS), "step 'b': keep: there is no column 'port'"),
        (lambda: begun().then("ended", keep=["at"]).on(LOGINS), "would be called 'ended_at'. Rename a step"),
        (lambda: reduce(lambda so_far, n: so_far.then(f"s{n}"), range(60), begun()), "at most 60 steps"),
        (lambda: begun().then("b", where="score > first(c.score)").on(LOGINS), "no column 'first(c.score)'"),
        (lambda: begun().then("b", where="score > sum(fail.score)").on(LOGINS), "not in the language of conditions"),
        (lambda: begun().never("n", where="last(n.ok)").on(LOGINS), "no column 'last(n.ok)'"),
        (lambda: begun(by="score").on(LOGINS), "by='score' is a double"),
        (lambda: begun(by=[]), "names no column"),
        (lambda: begun(by="who").on(LOGINS), "by: there is no column 'who'"),
        (lambda: begun(within="soon"), "within: 'soon' is not a duration"),
        (lambda: begun(after="skip"), "after='skip'. Write one of skip_past_last, skip_to_next, no_skip"),
        (lambda: begun(partials=0), "partials=0"),
        (lambda: begun(late="2m"), "late='2m' is not a policy"),
        (lambda: hr.pattern("…", by="user", within="1m"), 'Write name="logins_guessed" beside the title'),
        (lambda: hr.pattern("p", by="user", within="1m").then("a"), "step 'a' comes after nothing"),
        (lambda: hr.pattern("p", by="user", within="1m").never("a", where="ok"), "Write .step(…) first"),
        (lambda: hr.pattern("p", by="user", within="1m").step("a", optional=True), "cannot be optional"),
        (lambda: hr.pattern("p", by="user", within="1m").on(LOGINS), "has no steps"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_its_line_and_what_to_write(write: Callable[[], Any], refused: str) -> None:
    with pytest.raises(hr.DeclarationError, match=re.escape(refused)) as error:
        write()
    assert re.match(r"test_patterns\.py:\d+: ", str(error.value))
