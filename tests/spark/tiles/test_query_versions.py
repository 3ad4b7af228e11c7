"""A changed definition resumes where it can; otherwise it is rejected with the remedy."""

import json
from pathlib import Path

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.declare.streams.stream import Stream
from headrace.spark.checkpoints.state_plan import StatePlan
from headrace.spark.execution.execution_plan import plan_app, to_text
from headrace.spark.tiles.backfill_cutovers import (
    Backfill,
    Cutover,
    backfill_file,
    base_tile_versions,
    load_backfill,
    save_backfill,
)
from headrace.spark.tiles.query_versions import (
    IncompatibleChangeError,
    QueryVersionPlan,
    is_computed_without_cutover,
    plan_query_versions,
    save_query_versions,
)


def payments(amount: str = "double", extra: str = "") -> Stream:
    schema = f"id string, card string, shop string, amount {amount}, at timestamp{extra}"
    return hr.Stream("payments", schema=schema, id="id", key="card", time="at")


def spend(stream: Stream, windows: list[str], by: str | list[str] = "card") -> View:
    @hr.features(stream, by=by)
    class Spend:
        total = hr.sum("amount", windows=windows)

    return Spend


def shops(stream: Stream) -> View:
    @hr.features(stream, by="shop")
    class Shops:
        payments = hr.count(windows="1h")

    return Shops


def after(state: Path, stream: Stream, *views: View) -> None:
    save_query_versions(plan_query_versions(stream, views, state, 2), state)


def planned(state: Path, stream: Stream, *views: View, rebuild: bool = False) -> QueryVersionPlan:
    return plan_query_versions(stream, views, state, 2, rebuild)


def names(generations: QueryVersionPlan) -> list[tuple[int, list[str]]]:
    return [(generation.number, [view.name for view in generation.views]) for generation in generations.versions]


def test_the_first_run_keeps_all_views_in_one_generation(tmp_path: Path) -> None:
    stream = payments()
    assert names(planned(tmp_path, stream, spend(stream, ["1h"]), shops(stream))) == [(1, ["Spend", "Shops"])]


def test_a_stream_without_views_has_no_tiles_query(tmp_path: Path) -> None:
    assert names(planned(tmp_path, payments())) == []


def test_the_same_declarations_go_on(tmp_path: Path) -> None:
    stream = payments()
    after(tmp_path, stream, spend(stream, ["1h"]))
    again = planned(tmp_path, payments(), spend(payments(), ["1h"]))
    assert (names(again), again.refusals, again.changes) == ([(1, ["Spend"])], (), ())


def test_an_added_view_gets_a_generation_of_its_own(tmp_path: Path) -> None:
    stream = payments()
    after(tmp_path, stream, spend(stream, ["1h"]))
    grown = planned(tmp_path, stream, spend(stream, ["1h"]), shops(stream))
    assert names(grown) == [(1, ["Spend"]), (2, ["Shops"])]
    assert "Shops is new" in grown.changes[0]
    save_query_versions(grown, tmp_path)
    assert names(planned(tmp_path, stream, spend(stream, ["1h"]), shops(stream))) == [(1, ["Spend"]), (2, ["Shops"])]


def test_a_window_that_needs_no_new_tiles_goes_on(tmp_path: Path) -> None:
    stream = payments()
    after(tmp_path, stream, spend(stream, ["1h"]))
    assert planned(tmp_path, stream, spend(stream, ["1h", "2h"])).refusals == ()


def test_a_column_added_to_the_schema_goes_on(tmp_path: Path) -> None:
    stream, wider = payments(), payments(extra=", country string")
    after(tmp_path, stream, spend(stream, ["1h"]))
    assert planned(tmp_path, wider, spend(wider, ["1h"])).refusals == ()


@pytest.mark.parametrize(
    ("stream", "windows", "by", "said"),
    [
        (payments(), ["1h", "7d"], "card", "view Spend: float_sum(amount double) every 1h was added."),
        (payments("bigint"), ["1h"], "card", "int_sum"),
        (payments(), ["1h"], ["card", "shop"], "shop"),
    ],
    ids=["a window that needs new tiles", "another type", "another entity"],
)
def test_what_state_cannot_follow_is_refused_with_what_to_do(
    tmp_path: Path, stream: Stream, windows: list[str], by: str | list[str], said: str
) -> None:
    after(tmp_path, payments(), spend(payments(), ["1h"]))
    with pytest.raises(IncompatibleChangeError) as refused:
        StatePlan((planned(tmp_path, stream, spend(stream, windows, by)),), ()).require_compatible()
    assert said in str(refused.value)
    assert "--rebuild payments" in str(refused.value)


def test_a_view_that_shares_its_state_cannot_simply_go(tmp_path: Path) -> None:
    stream = payments()
    after(tmp_path, stream, spend(stream, ["1h"]), shops(stream))
    with pytest.raises(IncompatibleChangeError, match="Shops is gone"):
        StatePlan((planned(tmp_path, stream, spend(stream, ["1h"])),), ()).require_compatible()


def test_a_view_with_a_generation_of_its_own_can_go(tmp_path: Path) -> None:
    stream = payments()
    after(tmp_path, stream, spend(stream, ["1h"]))
    save_query_versions(planned(tmp_path, stream, spend(stream, ["1h"]), shops(stream)), tmp_path)
    assert names(planned(tmp_path, stream, spend(stream, ["1h"]))) == [(1, ["Spend"])]


def test_a_rebuild_starts_one_new_generation_for_all_views(tmp_path: Path) -> None:
    stream = payments()
    after(tmp_path, stream, spend(stream, ["1h"]))
    rebuilt = planned(tmp_path, stream, spend(stream, ["7d"]), shops(stream), rebuild=True)
    assert names(rebuilt) == [(2, ["Spend", "Shops"])]
    save_query_versions(rebuilt, tmp_path)
    assert names(planned(tmp_path, stream, spend(stream, ["7d"]), shops(stream))) == [(2, ["Spend", "Shops"])]


CUT = Cutover((7, 9), (5, 6))


def backfilled(state: Path, view: View, cut: Cutover = CUT) -> None:
    save_backfill(
        Backfill(view.name, dict.fromkeys([stream.name for stream in view.streams], cut), base_tile_versions(view)),
        state,
    )


def test_a_view_with_a_history_gets_a_generation_with_its_cut_which_is_remembered(tmp_path: Path) -> None:
    stream = payments()
    after(tmp_path, stream, spend(stream, ["1h"]))
    backfilled(tmp_path, shops(stream))
    grown = planned(tmp_path, stream, spend(stream, ["1h"]), shops(stream))
    assert [(g.number, g.cutover) for g in grown.versions] == [(1, None), (2, CUT)]
    assert "payments-0@7, payments-1@9" in grown.changes[0]
    save_query_versions(grown, tmp_path)
    backfill_file(tmp_path, "Shops").unlink()
    again = planned(tmp_path, stream, spend(stream, ["1h"]), shops(stream))
    assert [(g.number, g.cutover) for g in again.versions] == [(1, None), (2, CUT)]


def test_in_a_first_run_too_only_views_with_a_history_have_a_cut(tmp_path: Path) -> None:
    stream = payments()
    backfilled(tmp_path, spend(stream, ["1h"]))
    first = planned(tmp_path, stream, spend(stream, ["1h"]), shops(stream))
    assert [(g.number, [view.name for view in g.views], g.cutover) for g in first.versions] == [
        (1, ["Shops"], None),
        (2, ["Spend"], CUT),
    ]


def test_a_rebuild_of_a_stream_with_a_history_is_refused_with_what_to_do(tmp_path: Path) -> None:
    stream = payments()
    backfilled(tmp_path, spend(stream, ["1h"]))
    after(tmp_path, stream, spend(stream, ["1h"]))
    with pytest.raises(IncompatibleChangeError, match=r"a rebuild would lose its history.*give the view another name"):
        StatePlan((planned(tmp_path, stream, spend(stream, ["1h"]), rebuild=True),), ()).require_compatible()


@pytest.mark.parametrize("other", [Cutover((7, 9), (5, 7)), None], ids=["another cut", "no cut"])
def test_a_query_that_does_not_begin_at_the_cut_is_refused(tmp_path: Path, other: Cutover | None) -> None:
    stream = payments()
    if other is not None:
        backfilled(tmp_path, spend(stream, ["1h"]), other)
    after(tmp_path, stream, spend(stream, ["1h"]))
    backfilled(tmp_path, spend(stream, ["1h"]))
    with pytest.raises(IncompatibleChangeError, match="does not begin where its history ends"):
        StatePlan((planned(tmp_path, stream, spend(stream, ["1h"])),), ()).require_compatible()
    assert is_computed_without_cutover(spend(stream, ["1h"]), tmp_path) is (other is None)


def test_a_view_that_was_changed_after_its_history_was_folded_is_refused(tmp_path: Path) -> None:
    stream = payments()
    backfilled(tmp_path, spend(stream, ["1h"]))
    with pytest.raises(IncompatibleChangeError, match="Spend has changed since its history was folded"):
        StatePlan((planned(tmp_path, stream, spend(stream, ["7d"])),), ()).require_compatible()


def test_the_plan_tells_where_a_query_begins(tmp_path: Path) -> None:
    stream = payments()
    backfilled(tmp_path, spend(stream, ["1h"]))
    text = to_text(plan_app(App("shop", (stream,), (spend(stream, ["1h"]),)), tmp_path))
    assert "payments.clean after its history, from payments-0@7, payments-1@9 on" in text


def refunds() -> Stream:
    return hr.Stream(
        "refunds", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
    )


def flow(*streams: Stream) -> View:
    @hr.features(list(streams), by="card")
    class Spend:
        total = hr.sum("amount", windows=["1h"])

    return Spend


def test_a_view_of_several_streams_is_kept_by_a_query_of_each(tmp_path: Path) -> None:
    both = flow(payments(), refunds())
    for stream in both.streams:
        after(tmp_path, stream, both)
        assert names(planned(tmp_path, stream, flow(refunds(), payments()))) == [(1, ["Spend"])]
        assert planned(tmp_path, stream, both).refusals == ()


def test_a_stream_that_is_added_to_a_view_or_taken_from_it_is_a_change_that_says_what_to_rebuild(
    tmp_path: Path,
) -> None:
    alone, both = spend(payments(), ["1h"]), flow(payments(), refunds())
    after(tmp_path, payments(), alone)
    added = planned(tmp_path, payments(), both)
    assert added.refusals == ("view Spend: `streams` changed from one alone to payments, refunds.",)
    assert "--rebuild payments --rebuild refunds" in added.advice
    save_query_versions(planned(tmp_path, payments(), both, rebuild=True), tmp_path)
    assert planned(tmp_path, payments(), both).refusals == ()
    taken = planned(tmp_path, payments(), alone)
    assert taken.refusals == ("view Spend: `streams` changed from payments, refunds to one alone.",)


def test_the_plan_tells_which_streams_a_tile_is_merged_from(tmp_path: Path) -> None:
    both = flow(payments(), refunds())
    text = to_text(plan_app(App("shop", both.streams, (both,)), tmp_path))
    assert "Spend every 1m, merged with those from refunds: at most" in text
    assert "Spend every 1m, merged with those from payments: at most" in text


def test_each_stream_of_a_view_with_a_history_begins_at_its_own_cut(tmp_path: Path) -> None:
    both = flow(payments(), refunds())
    cuts = {"payments": CUT, "refunds": Cutover((3,), (2,))}
    save_backfill(Backfill(both.name, cuts, base_tile_versions(both)), tmp_path)
    for stream in both.streams:
        (generation,) = planned(tmp_path, stream, both).versions
        assert generation.cutover == cuts[stream.name]
    assert not is_computed_without_cutover(both, tmp_path)
    after(tmp_path, refunds(), both)
    backfill_file(tmp_path, both.name).unlink()
    after(tmp_path, payments(), both)
    assert is_computed_without_cutover(both, tmp_path)


def test_a_backfill_from_before_views_had_several_streams_is_still_read(tmp_path: Path) -> None:
    view = spend(payments(), ["1h"])
    file = backfill_file(tmp_path, view.name)
    file.parent.mkdir(parents=True)
    written = {
        "view": view.name,
        "cut": {"raw": [7, 9], "clean": [5, 6]},
        "versions": base_tile_versions(view),
        "ends": [1],
    }
    file.write_text(json.dumps(written))
    assert load_backfill(tmp_path, view) == Backfill(view.name, {"payments": CUT}, base_tile_versions(view), (1,))
