"""The sections' arithmetic, on made-up figures."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from bench import (
    anchor,
    drain,
    formats,
    growth,
    lake,
    latency,
    overload,
    predictions,
    scrape,
    serve,
    sinks,
    sql,
    training,
    watched,
)
from bench.__main__ import main
from bench.app import CardSpend
from bench.batch import Batch
from bench.chart import draw
from bench.drain import Drained
from bench.entities import Cards, card
from bench.errors import BenchFailed, Skipped
from bench.growth import Grown
from bench.lake import Landed
from bench.percentiles import Spread
from bench.results import Result
from bench.section import Run
from bench.servers import Filled
from bench.sinks import Brought
from bench.truth import differences, vector
from bench.wrk import Answered, Loaded, answered, loaded
from headrace.online_store.memory.memory_store import MemoryStore
from tests.bench.test_results import kept


def latency_found(p50: float) -> Result:
    found = {
        "real-time": {rate: Spread(600, p50, 2 * p50, 5 * p50) for rate in (100, 500)},
        "micro-batch": {rate: Spread(600, 1200.0, 1800.0, 2500.0) for rate in (100, 500)},
    }
    return latency.result(found, latency.FULL)


def serve_found() -> Result:
    rounds = [
        {"constant": Answered(10_000 * speed, 0.1, 0.2), "memory": Answered(4_500 * speed, 0.2, 0.4),
         "Redis": Answered(1_000 * speed, 0.5, 0.9)}
        for speed in (1.0, 0.5, 0.9)
    ]  # fmt: skip
    return serve.result({connections: serve.shared(rounds) for connections in serve.CONNECTIONS}, 46)


def drain_found() -> Result:
    return drain.result(
        300_000,
        Drained(15.0, 20.0, 250_000, 294_000, {"payments.gate": "draining"}),
        Batch(10.0, 5.0, 250_000, 294_000),
    )


def test_only_queries_over_all_rows_have_to_meet_their_goal() -> None:
    quick, slow = (sql.Asked(2 * p50, Spread(50, p50, p50, p50), 3.0) for p50 in (90.0, 500.0))
    found = {name: quick if name in sql.OVER_ALL else slow for name in sql.QUERIES}
    result = sql.result(1_000_000, 900.0, found, quick=False)
    assert [goal.met for goal in result.goals] == [True, True]
    assert result.table.rows[1] == ["by merchant", "180 ms", "90 ms", "90 ms", "3 ms"]
    late = sql.result(1_000_000, 900.0, found | {"top cards": slow}, quick=False)
    assert [goal.met for goal in late.goals] == [False, False]


def test_deliveries_are_compared_with_at_most_once_to_the_same_target() -> None:
    found = [Brought("postgres", {"at_most_once": 20_000.0, "exactly_once": 15_000.0})]
    rows = sinks.result(1000, 3, found, ["Left out."]).table.rows
    assert rows == [["postgres, at_most_once", "20,000", "1.00"], ["postgres, exactly_once", "15,000", "0.75"]]


def test_avro_is_held_to_the_median_of_json() -> None:
    json = Spread(3000, 2.0, 4.0, 9.0)
    found = {p50: formats.result({"json": json, "avro": Spread(3000, p50, 5.0, 9.0)}, 20, 15) for p50 in (2.9, 3.1)}
    assert [one.goals[0].met for one in found.values()] == [True, False]
    assert found[2.9].table.rows[1] == ["avro", "2.9 ms", "5.0 ms", "9.0 ms", "3000"]


def test_the_lake_is_compared_with_the_gate() -> None:
    rows = {row[0]: row[1:] for row in lake.result(300_000, Landed(15.0, 12.0, 20.0), []).table.rows}
    assert rows == {
        "gate": ["15.0 s", "20,000", "1.00"],
        "bronze": ["12.0 s", "25,000", "1.25"],
        "silver": ["20.0 s", "15,000", "0.75"],
    }


def growth_found() -> Result:
    filled = Filled(port=0, cards=1000, tiles=12_000, apply_seconds=0.1, bytes=2_000_000)
    return growth.result([Grown("memory", filled, Answered(4000, 1.0, 3.0))], ["Redis was left out."])


def test_lanes_are_compared_by_their_medians() -> None:
    assert [goal.met for goal in latency_found(9.0).goals] == [True, True]
    assert [goal.met for goal in latency_found(20.0).goals] == [True, False]
    assert [goal.met for goal in latency_found(60.0).goals] == [False, False]


def test_a_share_is_that_of_one_round() -> None:
    shares = serve_found().figures["8"]
    assert shares["memory"]["share"] == pytest.approx(0.45)
    assert shares["memory"]["answered"]["requests_a_second"] == pytest.approx(4050)


def test_each_store_has_its_own_goal() -> None:
    assert [goal.met for goal in serve_found().goals] == [True, False]


def test_a_backlog_is_compared_with_the_batch() -> None:
    rows = {row[0]: row[1:] for row in drain_found().table.rows}
    assert rows["stream, gate and tiles"] == ["20.0 s", "15,000", "0.50"]


def training_found(sql_seconds: float) -> Result:
    sizes = [(200_000, 1.0), (1_000_000, 2.0), (5_000_000, 10.0)]
    cases = [(events, per_card, False, seconds) for events, seconds in sizes for per_card in (50, 10_000)]
    return training.result(
        [_case(*case, sql_seconds) for case in [*cases, (5_000_000, 10_000, True, 15.0)]], quick=False
    )


def _case(events: int, per_card: int, hot: bool, seconds: float, sql_seconds: float) -> dict[str, Any]:
    case = {"events": events, "per_card": per_card, "hot": hot}
    beside = {"sql_seconds": None if hot else sql_seconds, "duckdb_seconds": None if hot else 4.0}
    beside |= {"sql_with_repeats_seconds": 3.0 if per_card == training.SPARSE else None}
    return {"case": case, "rows": events // 20, "headrace_seconds": seconds, **beside}


def test_the_goals_of_training_sets_are_those_of_the_largest_case() -> None:
    assert [goal.met for goal in training_found(60.0).goals] == [True, True, True, True]
    assert [goal.met for goal in training_found(40.0).goals] == [False, True, True, True]
    assert [goal.met for goal in training_found(9.0).goals] == [False, False, True, True]


def test_the_range_join_that_counts_repeats_twice_is_told_beside_the_table() -> None:
    (said,) = [note for note in training_found(60.0).notes if "repeats" in note]
    assert "5,000,000 sparse events in 3.0 s" in said


def test_what_was_left_out_is_said() -> None:
    assert "Redis was left out." in growth_found().notes


def test_a_failed_request_makes_the_figure_worthless() -> None:
    line = '{"requests": 10, "seconds": 2.0, "failed": %d, "refused": %d, "p50_ms": 0.2, "p99_ms": 0.9}'
    assert answered("Running 2s test\n" + line % (0, 0)) == Answered(5.0, 0.2, 0.9)
    for failed, refused in ((1, 0), (0, 1)):
        with pytest.raises(BenchFailed, match="1 of 10 requests failed"):
            answered(line % (failed, refused))
    assert loaded(line % (0, 4)).scored_a_second == 3.0


@pytest.mark.parametrize(
    ("refused", "well", "met", "share"), [(4_000, 0.6, [True, True], "100%"), (12_000, 11.0, [False, False], "88%")]
)
def test_an_overload_is_held_against_the_best_of_calm_loads(
    refused: int, well: float, met: list[bool], share: str
) -> None:
    calm = {connections: Loaded(1_000 * connections, 0, 10.0, 1.0, 2.0) for connections in overload.CALM}
    found = overload.result(overload.Endured(calm, Loaded(68_000, refused, 10.0, 90.0, 200.0), 10, well))
    assert found.figures["peak"] == 6_400
    assert [goal.met for goal in found.goals] == met
    assert found.table.rows[-1][2] == share


@pytest.mark.parametrize(("rate", "p99", "met"), [(960.0, 1.09, [True, True]), (940.0, 1.2, [False, False])])
def test_looking_is_held_against_nobody_looking_in_the_same_round(rate: float, p99: float, met: list[bool]) -> None:
    slow, quick = Answered(100.0, 1.0, 10.0), Answered(1000.0, 0.1, 1.0)
    rounds = [
        {watched.NOBODY: slow, watched.ONE: slow, watched.MANY: slow},
        *([{watched.NOBODY: quick, watched.ONE: Answered(rate, 0.1, 1.0), watched.MANY: Answered(rate, 0.1, p99)}] * 2),
    ]
    found = watched.result(rounds)
    assert [goal.met for goal in found.goals] == met
    assert found.figures[watched.ONE]["rate"] == rate / 1000


@pytest.mark.parametrize(("p99", "met"), [(49.9, True), (50.0, False)])
def test_a_scrape_has_to_be_quicker_than_50_ms(p99: float, met: bool) -> None:
    found = scrape.result(scrape.Scraped(204, 408, 900, Spread(200, 10.0, 20.0, p99)))
    assert [goal.met for goal in found.goals] == [met]
    assert found.table.rows == [["`/metrics`", "204", "408", "900", "10.0 ms", f"{p99:.1f} ms"]]


def test_every_section_has_a_panel_that_follows_the_page() -> None:
    found = [latency_found(9.0), drain_found(), serve_found(), growth_found(), training_found(60.0)]
    found.append(anchor_found(12_000, 5_000))
    svg = draw({one.section: replace(kept(one.section), result=one) for one in found})
    ET.fromstring(svg)
    assert "prefers-color-scheme: dark" in svg
    assert "fill: #1d2733" not in svg
    for title in (
        "Producer to HTTP answer",
        "A backlog of 300,000 events",
        "As the store grows",
        "One card, ten features, 8 connections",
        "Training set from 5,000,000 events",
    ):
        assert title in svg


def predictions_found(p50: float, outside: float, own: float) -> Result:
    scored = predictions.Found(Spread(6_500, p50, 2 * p50, 5 * p50), outside, 0.0, own)
    batches = predictions.Found(Spread(6_500, 1200.0, 1800.0, 2500.0), 1.0, 0.0, None)
    bare = predictions.Found(Spread(6_500, 200.0, 300.0, 500.0), 1.0, 0.0, None)
    found = {predictions.SCORER: scored, predictions.MICRO_BATCH: batches, predictions.BARE: bare}
    return predictions.result(
        {lane: dict.fromkeys(predictions.RATES, one) for lane, one in found.items()}, predictions.FULL
    )


@pytest.mark.parametrize(
    ("p50", "outside", "own", "met"), [(12.0, 0.0, 0.99, [True] * 3), (50.0, 0.002, 0.98, [False] * 3)]
)
def test_predictions_are_held_against_micro_batches_the_budget_and_their_own_event(
    p50: float, outside: float, own: float, met: list[bool]
) -> None:
    assert [goal.met for goal in predictions_found(p50, outside, own).goals] == met


def anchor_found(memory: float, redis: float) -> Result:
    rounds = [
        {"Feast": Answered(1_000 * speed, 7.0, 20.0), "memory": Answered(memory * speed, 0.5, 2.0),
         "Redis": Answered(redis * speed, 0.8, 5.0), "/predict": Answered(4_900 * speed, 1.0, 3.0)}
        for speed in (1.0, 0.5, 0.9)
    ]  # fmt: skip
    return anchor.result(rounds, 5_000)


def test_a_peer_is_compared_by_rate_and_by_the_slow_end() -> None:
    found = {row[0]: row[1:] for row in anchor_found(12_000, 5_000).table.rows}
    assert found["Feast"] == ["2", "900", "1.0×", "7.00 ms", "20.00 ms", "1.00×"]
    assert found["memory"] == ["2", "10,800", "12.0×", "0.50 ms", "2.00 ms", "0.10×"]
    assert [goal.met for goal in anchor_found(12_000, 5_000).goals] == [True, False, False, True, False]


def test_counting_by_hand_finds_a_wrong_answer_and_no_right_one() -> None:
    at_us = 1_767_225_600_000_000
    cards, store = Cards(at_us, 10), MemoryStore([CardSpend])
    store.apply(cards.records(3))
    (read,) = store.read(CardSpend.name, [(card(3),)], at_us)
    answered = dict(zip(CardSpend.names, read.values, strict=True))
    counted = vector(cards.payments(3), at_us)
    assert counted["payments_7d"] > counted["payments_10m"]
    assert differences(answered, counted) == []
    assert differences(answered | {"payments_1h": 1}, counted) == [
        f"payments_1h is 1 instead of {counted['payments_1h']}"
    ]


def test_what_cannot_run_here_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_run: Run) -> Result:
        raise Skipped("Feast cannot be installed: no network.")

    monkeypatch.setattr("bench.__main__.SECTIONS", {"anchor": refuse})
    monkeypatch.setattr("bench.__main__._draw", lambda _quick: None)
    run = CliRunner().invoke(main, ["anchor"])
    assert run.exit_code == 0
    assert "anchor skipped: Feast cannot be installed: no network." in run.output
