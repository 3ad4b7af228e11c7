"""`headrace plan` prints the maximum number of tiles per key, or that a lifetime window has none."""

from pathlib import Path

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.errors import DeclarationError
from headrace.spark.checkpoints.state_plan import plan_state
from headrace.spark.derived_streams.checkpoint_compatibility import require_compatible_checkpoint
from headrace.spark.derived_streams.derived_query import LaneDecision, stream_functions
from headrace.spark.execution.execution_plan import NO_CHANGES, plan_app, to_json, to_text
from headrace.spark.execution.lanes import Lane
from headrace.spark.stateful.operation_versions import begin_operation_version
from headrace.spark.tiles.query_versions import IncompatibleChangeError, save_query_versions

payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows=["1h", "forever"])


def test_tiles_of_a_lifetime_window_have_no_bound_online_and_one_in_state(tmp_path: Path) -> None:
    plan = plan_app(App("app", (payments,), (CardSpend,)), tmp_path)
    hour, ever = to_json(plan)[0]["tiles"]
    assert (hour["hop"], hour["tiles_online"]) == ("1m", 61)
    assert (ever["hop"], ever["tiles_online"], ever["tiles_in_state"]) == ("1d", None, 2)
    assert "every 1m: at most 61 tiles a key online" in to_text(plan)
    assert "every 1d: one tile a key online for every 1d with events, for ever, 2 in state" in to_text(plan)


abroad = hr.derive(payments, name="abroad")(lambda payments: payments)
CALM = LaneDecision(Lane.REAL_TIME, "filters", keeps_state=False)
KEEPS = LaneDecision(Lane.MICRO_BATCH, "an aggregate", keeps_state=True)


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
    assert "REFUSED: app.py:3: abroad: it cannot." in to_text((planned,))


def test_a_stream_that_comes_from_another_log_says_so_and_not_its_address(tmp_path: Path) -> None:
    from_ = hr.Nats("nats://broker.example:4222", stream="VISITS", subject="visits.*")
    visits = hr.Stream("visits", schema="id string, at timestamp", id="id", key="id", time="at", from_=from_)
    plan = plan_app(App("app", (visits, payments), ()), tmp_path)
    assert "comes from: nats VISITS visits.*, by a bridge" in to_text(plan)
    assert [stream["comes_from"] for stream in to_json(plan)] == ["nats VISITS visits.*", None]
    assert "example" not in to_text(plan)


def clicks() -> hr.Stream:
    return hr.Stream("clicks", schema="id string, user string, at timestamp", id="id", key="user", time="at")


def taps(windows: str = "1h") -> hr.View:
    @hr.features(clicks(), by="user")
    class Taps:
        n = hr.count(windows=windows)

    return Taps


def app_of(*streams: hr.Stream, views: tuple[hr.View, ...] = ()) -> App:
    return App("app", (clicks(), *streams), views)


def visits(name: str = "visits") -> tuple[hr.Stream, ...]:
    return tuple(hr.windowed(name, clicks(), by="user", over=hr.Session("30m"), n=hr.count()))


def ran(app: App, state: Path) -> None:
    """What `up` writes down."""
    planned = plan_state(app, state)
    for plan in planned.query_versions:
        save_query_versions(plan, state)
    for run in planned.operation_versions:
        begin_operation_version(app, run, state, "no broker is asked where nothing is let go of")


def changes(app: App, state: Path) -> dict[str, tuple[str, ...]]:
    return {planned.stream: planned.changes for planned in plan_app(app, state)}


@pytest.mark.parametrize(
    "app",
    [app_of(), app_of(views=(taps(),)), app_of(*visits()), app_of(abroad)],
    ids=["a stream alone", "a view", "windows", "a derived stream"],
)
def test_a_plan_says_first_run_of_the_first_run_and_of_no_other(tmp_path: Path, app: App) -> None:
    assert set(changes(app, tmp_path).values()) == {("first run",)}
    ran(app, tmp_path)
    assert set(changes(app, tmp_path).values()) == {NO_CHANGES}


def test_what_is_added_to_an_app_that_has_run_is_new_and_no_first_run(tmp_path: Path) -> None:
    ran(app_of(), tmp_path)
    found = changes(app_of(*visits(), abroad, views=(taps(),)), tmp_path)
    assert found["clicks"] == ("Taps is new: it is computed from the earliest clean record",)
    assert found["visits"][0] == "window visits is new: it is computed from the earliest record of clicks.clean"
    assert found["abroad"] == ("abroad is a new stream",)


def test_what_is_renamed_is_new_and_what_is_removed_is_gone(tmp_path: Path) -> None:
    ran(app_of(*visits(), views=(taps(),)), tmp_path)
    found = changes(app_of(*visits("calls")), tmp_path)
    assert found["clicks"] == ("Taps is gone: its tiles are computed no more",)
    assert found["calls"][0].startswith("window calls is new")
    ran(app_of(*visits("calls")), tmp_path)
    assert set(changes(app_of(*visits("calls")), tmp_path).values()) == {NO_CHANGES}
    back = changes(app_of(views=(taps(),)), tmp_path)
    assert back["clicks"] == ("Taps is new: it is computed from the earliest clean record",)


def test_a_function_whose_checkpoint_cannot_follow_is_refused_by_the_plan(tmp_path: Path) -> None:
    made_by = stream_functions(App("app", (payments, abroad), ()))[abroad.made_by]
    checkpoint = tmp_path / "checkpoints" / "abroad" / "derive"
    require_compatible_checkpoint(made_by, CALM, checkpoint)
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "commits" / "0").write_text("v1\n{}")
    _, planned = plan_app(App("app", (payments, abroad), ()), tmp_path, {abroad.made_by: KEEPS})
    assert "it kept nothing and keeps an aggregate now" in planned.refused[0]


def test_all_that_the_kept_state_cannot_follow_is_refused_at_once_with_every_flag_that_helps(tmp_path: Path) -> None:
    ran(app_of(*visits(), views=(taps(),)), tmp_path)
    changed = app_of(
        *hr.windowed("visits", clicks(), by="user", over=hr.Session("40m"), n=hr.count()), views=(taps(windows="2d"),)
    )
    with pytest.raises(IncompatibleChangeError) as refused:
        plan_state(changed, tmp_path)
    of_windows, of_view, together = str(refused.value).splitlines()
    assert "`over` changed from" in of_windows
    assert of_view.startswith("view Taps: ")
    assert together == "All of them at once: --rebuild visits --rebuild clicks"
    assert plan_state(changed, tmp_path, rebuild=("visits", "clicks")).operation_versions[0].number == 2


def test_a_rebuild_of_a_stream_without_views_is_no_first_run(tmp_path: Path) -> None:
    ran(app_of(*visits()), tmp_path)
    planned = plan_state(app_of(*visits()), tmp_path, rebuild=("visits",))
    assert {one.changes for one in planned.query_versions} == {()}
    assert planned.operation_versions[0].changes == ("visits is computed again from its inputs' clean logs",)
