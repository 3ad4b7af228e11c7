"""`headrace plan` says how many tiles a key may have, or that a lifetime window has no such number."""

from pathlib import Path

import headrace as hr
from headrace.declare.app import App
from headrace.errors import DeclarationError
from headrace.stream.derived import Judged
from headrace.stream.lanes import Lane
from headrace.stream.plan import as_json, as_text, plan_app

payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows=["1h", "forever"])


def test_tiles_of_a_lifetime_window_have_no_bound_online_and_one_in_state(tmp_path: Path) -> None:
    plan = plan_app(App("app", (payments,), (CardSpend,)), tmp_path)
    hour, ever = as_json(plan)[0]["tiles"]
    assert (hour["hop"], hour["tiles_online"]) == ("1m", 61)
    assert (ever["hop"], ever["tiles_online"], ever["tiles_in_state"]) == ("1d", None, 2)
    assert "every 1m: at most 61 tiles a key online" in as_text(plan)
    assert "every 1d: one tile a key online for every 1d with events, for ever, 2 in state" in as_text(plan)


abroad = hr.derive(payments, name="abroad")(lambda payments: payments)
CALM = Judged(Lane.REAL_TIME, "filters", keeps_state=False)
KEEPS = Judged(Lane.MICRO_BATCH, "an aggregate", keeps_state=True)


def test_a_derived_stream_has_a_query_with_its_lane_and_why(tmp_path: Path) -> None:
    app = App("app", (payments, abroad), ())
    _, planned = plan_app(app, tmp_path, {abroad.made_by: CALM})
    derive, gate = planned.queries
    assert (derive.name, derive.reads, derive.writes) == ("abroad.derive", "payments.clean", ("abroad",))
    assert (derive.lane, derive.why, derive.remembers) == ("real-time", "filters", "nothing")
    assert gate.name == "abroad.gate"
    (derive, _) = plan_app(app, tmp_path, {abroad.made_by: KEEPS})[1].queries
    assert (derive.lane, derive.why) == ("micro-batch", "an aggregate")
    assert derive.remembers == "each id of payments for 71m, and what it keeps"


def test_a_function_that_cannot_run_is_a_refusal_of_the_plan(tmp_path: Path) -> None:
    refused = DeclarationError("app.py:3: abroad: it cannot.")
    (_, planned) = plan_app(App("app", (payments, abroad), ()), tmp_path, {abroad.made_by: refused})
    assert planned.refused == ("app.py:3: abroad: it cannot.",)
    assert "REFUSED: app.py:3: abroad: it cannot." in as_text((planned,))


def test_a_stream_that_comes_from_another_log_says_so_and_not_its_address(tmp_path: Path) -> None:
    from_ = hr.Nats("nats://broker.example:4222", stream="VISITS", subject="visits.*")
    visits = hr.Stream("visits", schema="id string, at timestamp", id="id", key="id", time="at", from_=from_)
    plan = plan_app(App("app", (visits, payments), ()), tmp_path)
    assert "comes from: nats VISITS visits.*, by a bridge" in as_text(plan)
    assert [stream["comes_from"] for stream in as_json(plan)] == ["nats VISITS visits.*", None]
    assert "example" not in as_text(plan)
