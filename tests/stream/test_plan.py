"""`headrace plan` says how many tiles a key may have, or that a lifetime window has no such number."""

from pathlib import Path

import headrace as hr
from headrace.declare.app import App
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
