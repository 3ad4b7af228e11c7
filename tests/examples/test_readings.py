import math

import pytest
from decisions import Decided
from payments import Truth
from readings import Delay, Scrape, Totals, delay_of, histogram_delay, percentile
from screen import Moment, Result, line, summary
from verdicts import Judged

from headrace.client.protocol import FeatureRow

TEXT = """\
# HELP headrace_events_total Events by fate.
# TYPE headrace_events_total counter
headrace_events_total{stream="payments",fate="in"} 100
headrace_events_total{stream="payments",fate="clean"} 95
headrace_events_total{stream="payments",fate="late"} 2
headrace_events_total{stream="payments",fate="dead"} 3
headrace_events_total{stream="chargebacks",fate="in"} 7
# TYPE headrace_dead_total counter
headrace_dead_total{stream="payments",reason="not-json"} 2
headrace_dead_total{stream="payments",reason="failed-check"} 1
headrace_dead_total{stream="payments",reason="missing-id"} 0
# TYPE headrace_duplicates_total counter
headrace_duplicates_total{stream="payments"} 4
# TYPE headrace_lag gauge
headrace_lag{stream="payments"} 5
# TYPE headrace_apply_seconds histogram
headrace_apply_seconds_bucket{le="0.005"} 40
headrace_apply_seconds_bucket{le="0.01"} 90
headrace_apply_seconds_bucket{le="0.1"} 99
headrace_apply_seconds_bucket{le="+Inf"} 100
headrace_apply_seconds_sum 1.5
headrace_apply_seconds_count 100
"""
DECIDED = Decided({"pass": 90, "block": 1}, Delay(0.014, 0.04, 91), degraded=2, frauds=1, caught=1)
JUDGED = Judged(40, {"matched": 38, "pending": 52}, 0.42, (0.97, 0.955), (0.9, None), (None, None))
TOTALS = Totals(arrived=100, clean=95, late=2, dropped=0, duplicates=4, dead={"failed-check": 1, "not-json": 2})


@pytest.fixture
def scrape() -> Scrape:
    return Scrape.parse(TEXT)


def result(totals: Totals = TOTALS, tested: int = 3) -> Result:
    sent = Truth(produced=90, clean=85, late=2, dead={"not-json": 2, "failed-check": 1}, duplicates=4, trials=3)
    delay = Delay(0.012, 0.05, 10)
    return Result(
        totals, sent, 10, requests=20, values=240, readable=delay, applied=None, decided=DECIDED, judged=JUDGED,
        tested=tested,
    )  # fmt: skip


def test_the_totals_of_a_stream_are_its_own(scrape):
    assert Totals.of(scrape, "payments") == TOTALS
    assert Totals.of(scrape, "chargebacks").arrived == 7


def test_a_stream_without_samples_has_seen_nothing(scrape):
    assert Totals.of(scrape, "unheard") == Totals(0, 0, 0, 0, 0)
    assert Totals.of(Scrape.parse(""), "payments") == Totals(0, 0, 0, 0, 0)


def test_samples_of_several_labels_are_summed(scrape):
    assert scrape.total("headrace_events_total", fate="in") == 107
    assert scrape.total("headrace_dead_total", stream="payments") == 3
    assert scrape.total("headrace_lag") == 5


def test_what_was_there_before_is_not_counted(scrape):
    later = Scrape.parse(TEXT.replace('fate="in"} 100', 'fate="in"} 130') + 'headrace_dead_total{reason="new"} 1\n')
    since = later.since(scrape)
    assert Totals.of(since, "payments") == Totals(30, 0, 0, 0, 0)
    assert since.total("headrace_dead_total", reason="new") == 1


def test_a_percentile_is_one_of_the_values():
    values = list(range(1, 101))
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile([7], 0.5) == percentile([7], 0.99) == 7


def test_delays_need_not_be_in_order():
    assert delay_of([3.0, 1.0, 2.0]) == Delay(2.0, 3.0, 3)
    assert delay_of([]) is None


def test_a_histogram_gives_the_place_within_a_bucket(scrape):
    delay = histogram_delay(scrape, "headrace_apply_seconds")
    assert delay is not None
    assert math.isclose(delay.p50, 0.006)
    assert math.isclose(delay.p99, 0.1)
    assert delay.count == 100


def test_beyond_the_last_bound_a_histogram_gives_that_bound():
    text = '# TYPE a histogram\na_bucket{le="1"} 0\na_bucket{le="+Inf"} 5\na_count 5\na_sum 50\n'
    assert histogram_delay(Scrape.parse(text), "a") == Delay(1.0, 1.0, 5)


def test_an_empty_histogram_has_no_delay(scrape):
    assert histogram_delay(scrape.since(scrape), "headrace_apply_seconds") is None
    assert histogram_delay(scrape, "unheard") is None


def test_the_result_agrees_when_the_server_counted_what_was_sent():
    assert result().agrees


@pytest.mark.parametrize(
    "wrong",
    [
        {"arrived": 99},
        {"clean": 96},
        {"late": 0},
        {"duplicates": 3},
        {"dead": {"not-json": 3}},
        {"dead": {"new": 1}},
    ],
)
def test_the_result_differs_when_a_count_is_off(wrong):
    assert not result(Totals(**(vars(TOTALS) | wrong))).agrees


def test_the_result_differs_when_a_card_that_was_tested_is_missed():
    assert result().agrees
    assert not result(tested=2).agrees


def test_the_table_has_a_row_for_every_fate():
    cells = list(summary(result()).columns[0].cells)
    assert cells == [
        "in", "clean", "late", "dead: failed-check", "dead: not-json", "duplicates dropped",
        "cards tested, then charged", "decided", "features read", "producer to readable", "log to store",
        "decision: pass", "decision: block", "frauds caught", "arrival to decision", "degraded", "labels",
        "by labels (by scores)",
    ]  # fmt: skip


def test_a_line_for_a_pipe_is_one_plain_line():
    row = FeatureRow({"card": "c1"}, {"payments_10m": 3, "spend_1h": 12.5}, None, None)
    moment = Moment(65, 199.6, 3, TOTALS, Delay(0.012, 0.05, 10), None, DECIDED, JUDGED, [row])
    text = line(moment)
    assert text.startswith("01:05  200 ev/s  lag 3  in 100")
    assert "P50 12 ms, P99 50 ms" in text
    assert "decided pass 90, block 1, P50 14 ms, P99 40 ms" in text
    assert "labels 40, coverage 42%, AUC 0.970 (0.955), recall 0.900 (-), precision - (-)" in text
    assert text.endswith("c1: payments_10m 3, spend_1h 12.50")
    assert text.isprintable()
