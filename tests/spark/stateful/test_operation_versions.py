"""A changed operation is rejected with its line; a rebuild starts from the beginning, as do all its consumers."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.declare.features.retractable_views import retractable_view_operation
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.source_location import SourceLocation
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics, fate_topics
from headrace.operators.factory import create_operator
from headrace.operators.operator import InputEvent
from headrace.spark.checkpoints.checkpoint_files import write_atomically
from headrace.spark.checkpoints.state_plan import plan_state
from headrace.spark.stateful.operation_identity import operation_identity
from headrace.spark.stateful.operation_versions import (
    OperationVersion,
    begin_operation_version,
    expand_rebuild_names,
    first_offsets,
    plan_operation_version,
)
from headrace.spark.tiles.query_versions import IncompatibleChangeError


@dataclass(frozen=True)
class What:
    size_us: int
    more: Any = None


MINUTE = What(60)


def stream(name: str, columns: str = "amount double", **settings: Any) -> hr.Stream:
    schema = f"id string, card string, at timestamp, {columns}"
    return hr.Stream(name, schema=schema, id="id", key="card", time="at", **settings)


def operation(name: str, *inputs: hr.Stream, what: Any = MINUTE, line: int = 7) -> StreamOperation:
    return StreamOperation(name, inputs, SourceLocation("app.py", line), (("card",),) * len(inputs), what, idle_us=1)


def derived(made_by: StreamOperation) -> DerivedStream:
    schema = "id string, card string, at timestamp, known_at timestamp"
    return DerivedStream(
        made_by.name, made_by=made_by, schema=schema, id="id", key="card", time="at", arrival="known_at"
    )


def keep(state: Path, one: StreamOperation, number: int = 1) -> None:
    kept = {"number": number, "terms": operation_identity(one), "since_us": None}
    write_atomically(state / "operations" / f"{one.name}.json", json.dumps(kept))


PAYMENTS = stream("payments")


def test_a_first_run_begins_and_an_unchanged_one_goes_on_wherever_it_is_written(tmp_path: Path) -> None:
    assert plan_operation_version(operation("spend", PAYMENTS), tmp_path).number == 1
    keep(tmp_path, operation("spend", PAYMENTS), number=3)
    moved = replace(operation("spend", PAYMENTS, line=99), idle_us=12345)
    run = plan_operation_version(moved, tmp_path)
    assert (run.number, run.refusals, run.changes) == (3, (), ())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (operation("spend", PAYMENTS, what=What(120)), "`size` changed from 0.06ms to 0.12ms"),
        (operation("spend", stream("payments", "amount bigint")), "column amount of payments changed from double to "),
        (
            operation("spend", stream("payments", late=hr.Late("2h"))),
            "`late` changed from Late(1h, side_output) to Late(2h, side_output) in payments",
        ),
        (replace(operation("spend", PAYMENTS), by=(("id",),)), "`by` changed from card to id"),
        (operation("spend", PAYMENTS, stream("rates")), "it read payments and reads payments and rates"),
    ],
)
def test_a_changed_operation_is_refused_with_its_line_the_change_and_what_to_do(
    tmp_path: Path, changed: StreamOperation, words: str
) -> None:
    keep(tmp_path, operation("spend", PAYMENTS))
    app = App("app", (*changed.inputs, derived(changed)), ())
    with pytest.raises(IncompatibleChangeError, match=r"^app\.py:7: operation spend: ") as refused:
        plan_state(app, tmp_path)
    assert words in str(refused.value)
    assert "--rebuild spend" in str(refused.value)
    assert "--from-savepoint" in str(refused.value)
    (run,) = plan_state(app, tmp_path, {"spend"}, since_us=5).operation_versions
    assert (run.number, run.since_us, run.identity) == (2, 5, operation_identity(changed))


def test_a_rebuild_reaches_what_is_made_of_it_and_nothing_else() -> None:
    spend, other = operation("spend", PAYMENTS), operation("other", PAYMENTS)
    bursts = operation("bursts", derived(spend))
    app = App("app", (PAYMENTS, derived(spend), derived(other), derived(bursts)), ())
    assert expand_rebuild_names(app, {"spend"}) == {"spend", "bursts"}
    assert expand_rebuild_names(app, {"bursts"}) == {"bursts"}
    assert expand_rebuild_names(app, {"payments"}) == {"payments"}, (
        "the views of a stream that comes from outside, as before"
    )


def test_terms_are_plain_values_and_tell_functions_by_what_they_do() -> None:
    def told(function: Any) -> Any:
        return json.loads(json.dumps(operation_identity(operation("spend", PAYMENTS, what=What(60, function)))))[
            "what"
        ]["more"]

    assert told(lambda n: n + 1) == told(lambda n: n + 1)
    assert told(lambda n: n + 1) != told(lambda n: n + 2)


CLICKS = "id string, user string, page string, price double, at timestamp"


def clicks(schema: str = CLICKS, name: str = "clicks") -> hr.Stream:
    return hr.Stream(name, schema=schema, id="id", key="user", time="at")


def windows(stream: hr.Stream, **changes: Any) -> StreamOperation:
    settings: dict[str, Any] = {"by": "user", "over": hr.Session("30m"), "spent": hr.sum("price")} | changes
    return made(hr.windowed("visits", stream, **settings).out)


def joins(stream: hr.Stream, **changes: Any) -> StreamOperation:
    settings: dict[str, Any] = {"on": "user", "within": ("0s", "1h")} | changes
    return made(
        hr.join("seen", stream, clicks("id string, user string, ad string, at timestamp", "ads"), **settings).out
    )


def asof_joins(stream: hr.Stream, **changes: Any) -> StreamOperation:
    settings: dict[str, Any] = {"on": "user", "tolerance": "1h"} | changes
    return made(hr.join_asof("rated", clicks("id string, user string, at timestamp", "ads"), stream, **settings).out)


def patterns(stream: hr.Stream, within: str = "1h", dear: str = "price > 9") -> StreamOperation:
    pattern = hr.pattern("Looks, buys", by="user", within=within).step("looks", where="page = 'shop'", keep="page")
    return made(pattern.then("buys", where=f"{dear} and page <> first(looks.page)").on(stream).out)


def made(stream: DerivedStream) -> StreamOperation:
    assert isinstance(stream.made_by, StreamOperation)
    return stream.made_by


OPERATIONS = [windows, joins, asof_joins, patterns]


@pytest.mark.parametrize("declare", OPERATIONS)
@pytest.mark.parametrize(
    "wider",
    [f"{CLICKS}, country string", f"country string, {CLICKS}", CLICKS.replace("user string", "user string, land int")],
)
def test_a_column_that_nothing_reads_is_added_and_the_run_goes_on(tmp_path: Path, declare: Any, wider: str) -> None:
    keep(tmp_path, declare(clicks()), number=3)
    run = plan_operation_version(declare(clicks(wider)), tmp_path)
    assert (run.number, run.refusals, run.changes) == (3, (), ())
    keep_run(tmp_path, run)
    again = plan_operation_version(declare(clicks(wider)), tmp_path)
    assert (again.refusals, again.identity) == ((), run.identity), "and once more, after it was written down"
    assert plan_operation_version(declare(clicks(f"{wider}, more string")), tmp_path).refusals == ()


def keep_run(state: Path, run: OperationVersion) -> None:
    kept = {"number": run.number, "terms": json.loads(json.dumps(run.identity)), "since_us": None}
    write_atomically(state / "operations" / f"{run.operation.name}.json", json.dumps(kept))


@pytest.mark.parametrize("declare", [windows, patterns])
def test_a_column_that_nothing_reads_may_go_and_columns_may_change_places(tmp_path: Path, declare: Any) -> None:
    keep(tmp_path, declare(clicks(f"{CLICKS}, country string")))
    assert plan_operation_version(declare(clicks()), tmp_path).refusals == ()
    assert plan_operation_version(declare(clicks(", ".join(reversed(CLICKS.split(", "))))), tmp_path).refusals == ()


@pytest.mark.parametrize("declare", [joins, asof_joins])
def test_rows_that_a_join_has_kept_are_joined_after_a_column_was_added_before_theirs(
    tmp_path: Path, declare: Any
) -> None:
    begun = declare(clicks())
    keep(tmp_path, begun)
    grown = plan_operation_version(declare(clicks(f"country string, {CLICKS}")), tmp_path).operation_in_state_order
    source = [stream.name for stream in begun.inputs].index("clicks")
    values = {"id": "c1", "user": "u", "page": "shop", "price": 2.5, "at": 5}
    before, after = create_operator(begun), create_operator(grown)
    kept = before.create_state()
    list(before.process_event(("u",), kept, InputEvent(source, "c1", 5, 6, 0, 0, values)))
    kept = after.decode_state(before.encode_state(kept))
    ad = {"id": "a1", "user": "u", "ad": "spring", "at": 7}
    rows = [*after.process_event(("u",), kept, InputEvent(1 - source, "a1", 7, 8, 0, 0, ad))]
    while (due_us := after.next_timer_us(kept)) is not None:
        rows += after.on_timer(("u",), kept, due_us)
    (row,) = (row for row in rows if row.output == "out")
    assert (row.values["page"], row.values["price"], row.values["country"]) == ("shop", 2.5, None)


def test_what_a_pattern_has_kept_is_matched_after_columns_have_changed_places(tmp_path: Path) -> None:
    begun = patterns(clicks(), dear="price > first(looks.price)")
    keep(tmp_path, begun)
    moved = ", ".join(["country string", *reversed(CLICKS.split(", "))])
    grown = plan_operation_version(patterns(clicks(moved), dear="price > first(looks.price)"), tmp_path)
    assert grown.refusals == ()
    before, after = create_operator(begun), create_operator(grown.operation_in_state_order)
    kept = before.create_state()
    looked = {"id": "c1", "user": "u", "page": "shop", "price": 2.5, "at": 5}
    list(before.process_event(("u",), kept, InputEvent(0, "c1", 5, 6, 0, 0, looked)))
    kept = after.decode_state(before.encode_state(kept))
    bought = {"id": "c2", "user": "u", "page": "pay", "price": 3.5, "at": 7, "country": "NO"}
    rows = list(after.process_event(("u",), kept, InputEvent(0, "c2", 7, 8, 0, 0, bought)))
    while (due_us := after.next_timer_us(kept)) is not None:
        rows += after.on_timer(("u",), kept, due_us)
    (match,) = (row for row in rows if row.output == "out")
    assert match.values["looks_page"] == "shop"


@pytest.mark.parametrize(
    ("begun", "now", "sentence"),
    [
        (
            windows(clicks()),
            windows(clicks(), over=hr.Session("20m")),
            "window visits: `over` changed from Session(30m) to Session(20m).",
        ),
        (
            windows(clicks()),
            windows(clicks(), spent=hr.max("price"), n=hr.count()),
            "window visits: n was added and spent changed from sum(price) to max(price).",
        ),
        (
            windows(clicks()),
            windows(clicks(), late=hr.Late("2m")),
            "window visits: `late` changed from Late(1h, side_output) to Late(2m, side_output).",
        ),
        (windows(clicks()), windows(clicks(), by="page"), "window visits: `by` changed from user to page."),
        (
            windows(clicks()),
            windows(clicks(CLICKS.replace("page string", "page bigint"))),
            "window visits: column page of clicks changed from string to bigint.",
        ),
        (
            joins(clicks()),
            joins(clicks(), within=("0s", "2h")),
            "join seen: `within` changed from 1h to 2h.",
        ),
        (joins(clicks()), joins(clicks(), kind="left"), "join seen: `kind` changed."),
        (
            joins(clicks()),
            joins(clicks(CLICKS.replace("page string, ", ""))),
            "join seen: column page of clicks was removed.",
        ),
        (
            joins(clicks()),
            joins(clicks(f"{CLICKS}, ad string")),
            "join seen: column ad of ads was called ad and would be called ads_ad.",
        ),
        (
            asof_joins(clicks()),
            asof_joins(clicks(), tolerance="2h", wait="5s"),
            "as-of join rated: `tolerance` changed from 1h to 2h and `wait` changed from none to 5s.",
        ),
        (patterns(clicks()), patterns(clicks(), within="2h"), "pattern looks_buys: `within` changed from 1h to 2h."),
        (patterns(clicks()), patterns(clicks(), dear="price > 8"), "pattern looks_buys: step buys changed in where."),
    ],
)
def test_what_needs_a_rebuild_is_said_in_one_sentence_in_the_words_of_the_declaration(
    tmp_path: Path, begun: StreamOperation, now: StreamOperation, sentence: str
) -> None:
    keep(tmp_path, begun)
    (refused,) = plan_operation_version(now, tmp_path).refusals
    assert refused == f"{now.location}: {sentence}"


def rows(schema: str, by: str = "land") -> StreamOperation:
    customers = hr.Changes("customers", key="id", schema=schema)

    @hr.features(customers, by=by)
    class Customers:
        n = hr.count(windows="1d")

    return retractable_view_operation(Customers)


def test_a_view_of_a_captured_table_follows_an_added_column_and_says_what_it_cannot_follow(tmp_path: Path) -> None:
    keep(tmp_path, rows("id bigint, land string, town string"))
    assert plan_operation_version(rows("id bigint, grade int, land string, town string"), tmp_path).refusals == ()
    (refused,) = plan_operation_version(rows("id bigint, land string, town string", by="town"), tmp_path).refusals
    assert refused == "view Customers: `by` changed from land to town."


def test_a_rebuild_empties_the_topics_and_keeps_where_they_begin_from_then_on(
    tmp_path: Path, broker: EmbeddedBroker
) -> None:
    spend = operation("emptied_spend", PAYMENTS)
    app, out = App("app", (PAYMENTS, derived(spend)), ()), derived(spend)
    ensure_topics(broker.address, [out])
    keep(tmp_path, spend)
    with Producer(broker.address) as producer:
        for number in range(5):
            producer.send(out.name, b"{}", key="k", partition=number % 2)
    begin_operation_version(app, plan_operation_version(spend, tmp_path), tmp_path, broker.address)
    assert first_offsets(tmp_path) == {}
    begin_operation_version(app, plan_operation_version(spend, tmp_path, rebuild=True), tmp_path, broker.address)
    begins = {out.name: {0: 3, 1: 2}} | {topic: {0: 0, 1: 0} for topic in fate_topics(out)}
    assert first_offsets(tmp_path) == begins
    assert set(OffsetClient(broker.address).topic_start_offsets([out.name]).values()) == {3, 2}
    begin_operation_version(app, plan_operation_version(spend, tmp_path), tmp_path, broker.address)
    assert first_offsets(tmp_path) == begins, "a restart empties nothing"
