"""The demo's arithmetic: its training history, and its counts of decisions."""

from datetime import datetime

import app
import orjson
import pyarrow.parquet as pq
import pytest
from decisions import Decided, Decisions
from deltalake import DeltaTable
from history import write_history
from payments import Fate, Timeline, attack_of, events, is_end_of_trial, is_fraud

from headrace.kafka.record import ConsumerRecord
from headrace.models.inference.prediction import Prediction, encode_prediction

START_US = 1_767_225_600_000_000
SEED = 11
NOBODY = "127.0.0.1:1"


def record(event_id: str, score: float, latency_ms: float = 4.0, **changed: object) -> ConsumerRecord:
    arrival_us = 4_000_000_000_000_000
    fields = {
        "event_id": event_id, "score": score, "decision": app.fraud.decision(score), "model": "fraud", "version": "1",
        "role": "champion", "source": "stream", "features": {}, "known": {}, "degraded": (), "event_time_us": 0,
        "arrival_us": arrival_us, "read_at_us": arrival_us, "decided_at_us": arrival_us + round(latency_ms * 1000),
    }  # fmt: skip
    return ConsumerRecord(
        "fraud.predictions", 0, 0, 0, event_id.encode(), encode_prediction(Prediction(**(fields | changed))), None
    )


@pytest.fixture
def decisions() -> Decisions:
    return Decisions(NOBODY, app.fraud, SEED)


def taken(decisions: Decisions, *records: ConsumerRecord) -> Decided:
    decisions._take(list(records))
    return decisions.decided()


def test_decisions_are_counted_by_name(decisions):
    found = taken(decisions, record("p11-1", 0.1), record("p11-2", 0.5), record("p11-3", 0.9, latency_ms=60.0))
    assert found.by_decision == {"pass": 1, "review": 1, "block": 1}
    assert (found.latency.p50, found.latency.p99) == pytest.approx((0.004, 0.06))


def test_of_several_predictions_of_a_payment_the_first_counts(decisions):
    found = taken(decisions, record("p11-1", 0.1), record("p11-1", 0.9), record("p11-2", 0.9, role="challenger"))
    assert (found.count, found.by_decision["block"]) == (1, 0)


def test_what_was_decided_before_this_run_is_not_counted(decisions):
    assert taken(decisions, record("p11-1", 0.9, decided_at_us=START_US)).count == 0


def test_degraded_decisions_are_counted_once_each(decisions):
    assert taken(decisions, record("p11-1", 0.1, degraded=("stale", "late")), record("p11-2", 0.1)).degraded == 1


def test_a_fraud_is_caught_by_any_decision_but_passing(decisions):
    (first, second, *_) = [number for number in range(3_000) if is_fraud(SEED, number)]
    found = taken(decisions, record(f"p11-{first}", 0.5), record(f"p11-{second}", 0.1), record("probe-11-3", 0.9))
    assert (found.frauds, found.caught) == (2, 1)


def test_most_of_an_attack_and_after_a_trial_is_fraud_and_little_else():
    attacked = [attack_of(SEED, number) is not None or is_end_of_trial(SEED, number) for number in range(20_000)]
    frauds = [is_fraud(SEED, number) for number in range(20_000)]
    both = sum(map(all, zip(attacked, frauds, strict=True)))
    assert 0.9 < both / sum(attacked) < 1
    assert 0 < sum(frauds) - both < 60


def test_history_is_what_the_gate_let_through_and_its_spine_is_of_the_moment_of_arrival(tmp_path):
    timeline = Timeline(SEED, START_US, 5.0)
    history = write_history(tmp_path, timeline, 2_000)
    passed = [one for one in events(SEED, 2_000, START_US, 5.0) if one.fate in {Fate.CLEAN, Fate.DUPLICATE}]
    rows = DeltaTable(history.lake / "silver" / "payments").to_pyarrow_table().sort_by("hr_offset").to_pylist()
    assert [row["hr_offset"] for row in rows] == [event.number for event in passed]
    assert [row["at"] for row in rows] == [datetime.fromisoformat(orjson.loads(event.value)["at"]) for event in passed]
    spine = pq.read_table(history.spine).to_pylist()
    clean = [event for event in passed if event.fate is Fate.CLEAN]
    assert [row["at"].timestamp() * 1e6 for row in spine] == pytest.approx([event.moment_us for event in clean], abs=1)
    assert [row["fraud"] for row in spine] == [is_fraud(SEED, event.number) for event in clean]
    assert any(row["fraud"] for row in spine)
