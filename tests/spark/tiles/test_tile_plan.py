"""The state of a tiles query: each partial once, for views of one and of several streams, and only computable ones."""

import headrace as hr
from headrace.declare.features.view import View
from headrace.spark.tiles.tile_query import TilePlan


def stream(name: str, more: str = "") -> hr.Stream:
    schema = f"id string, card string, amount double{more}, at timestamp"
    return hr.Stream(name, schema=schema, id="id", key="card", time="at")


payments, fees, notes = stream("payments"), stream("fees", ", extra bigint"), stream("notes", ", extra double")


def view(name: str, streams: list[hr.Stream], **features: object) -> View:
    return hr.features(streams, by="card")(type(name, (), features))


def total() -> object:
    return hr.sum("amount", windows="1h")


def test_a_view_of_several_streams_shares_the_partials_of_one_of_one() -> None:
    plan = TilePlan(payments, (view("Alone", [payments], spent=total()), view("Both", [payments, fees], spent=total())))
    assert list(plan.kinds_by_partial.values()) == [[0, 1]]
    assert len({kind.layout.version for kind in plan.tile_kinds}) == 2


def test_a_partial_of_a_column_that_only_another_stream_has_is_not_kept() -> None:
    both = view("Both", [payments, fees], spent=total(), extra=hr.sum("extra", windows="1h"))
    assert [fed.slot.column for fed in TilePlan(payments, (both,)).kinds_by_partial] == ["amount"]
    assert sorted(str(fed.slot.column) for fed in TilePlan(fees, (both,)).kinds_by_partial) == ["amount", "extra"]
    assert TilePlan(payments, (both,)).tile_kinds[0].layout.slots == TilePlan(fees, (both,)).tile_kinds[0].layout.slots


def test_views_that_take_a_missing_column_for_different_kinds_share_no_condition_on_it() -> None:
    views = [
        view(name, [payments, other], few=hr.count(where="coalesce(extra, amount) > 5", windows="1h"), spent=total())
        for name, other in (("WithFees", fees), ("WithNotes", notes))
    ]
    assert views[0].features[0].aggregate == views[1].features[0].aggregate
    assert sorted(TilePlan(payments, tuple(views)).kinds_by_partial.values()) == [[0], [0, 1], [1]]
