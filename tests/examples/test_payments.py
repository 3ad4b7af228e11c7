import os
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path

import app
import orjson
import pytest
from payments import TRIAL_EVERY, Event, Fate, Timeline, events, is_end_of_trial, is_fraud, truth

import headrace as hr
from headrace.operators.factory import create_operator
from headrace.operators.operator import InputEvent, OutputEvent, advance_operator
from headrace.tiles.events.record_classification import RawRecord, classify_records

FRAUD = Path(__file__).parents[2] / "examples" / "fraud"
START_US = 1_767_225_600_000_000
SEED = 11
REASONS = {"not-json", "wrong-type", "missing-id", "failed-check", "too-far-ahead"}


SCRIPT = f"""
import sys, payments
for event in payments.events({SEED}, 2_000, {START_US}, 200):
    sys.stdout.buffer.write(event.key + event.value)
"""


@pytest.fixture(scope="module")
def produced() -> list[Event]:
    return list(events(SEED, 40_000, START_US, 200))


def of(produced: list[Event], fate: Fate, reason: str = "") -> list[Event]:
    return [event for event in produced if (event.fate, event.reason) == (fate, reason)]


def lateness_us(event: Event) -> float:
    at = datetime.fromisoformat(orjson.loads(event.value)["at"])
    return event.moment_us - at.timestamp() * 1e6


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_every_process_produces_the_same_bytes(produced, hash_seed):
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(FRAUD)}
    there = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True)
    assert there.stdout == b"".join(event.key + event.value for event in produced[:2_000])


def test_a_payment_does_not_depend_on_the_ones_before_it():
    timeline = Timeline(SEED, START_US, 200)
    forwards = [timeline.event(number) for number in range(3_000)]
    backwards = [timeline.event(number) for number in reversed(range(3_000))]
    assert forwards == backwards[::-1]


def test_another_seed_gives_other_payments():
    assert Timeline(1, START_US, 200).event(500).value != Timeline(2, START_US, 200).event(500).value


def test_the_shares_are_those_that_were_promised(produced):
    counts = truth(SEED, len(produced))
    assert counts.late / counts.produced == pytest.approx(0.010, abs=0.002)
    assert counts.duplicates / counts.produced == pytest.approx(0.020, abs=0.003)
    broken = sum(times for reason, times in counts.dead.items() if reason != "too-far-ahead")
    assert broken / counts.produced == pytest.approx(0.005, abs=0.0015)
    assert counts.dead["too-far-ahead"] / counts.produced == pytest.approx(0.002, abs=0.001)


def test_truth_counts_what_is_produced(produced):
    counts = truth(SEED, len(produced))
    assert counts.produced == len(produced)
    assert counts.duplicates == len(of(produced, Fate.DUPLICATE))
    assert counts.clean == len(of(produced, Fate.CLEAN)) + counts.duplicates
    assert counts.late == len(of(produced, Fate.LATE))
    assert counts.dead == {reason: len(of(produced, Fate.DEAD, reason)) for reason in counts.dead}
    assert counts.clean + counts.late + sum(counts.dead.values()) == counts.produced


def test_truth_of_two_halves_is_the_truth_of_the_whole():
    whole, one, other = truth(SEED, 4_000), truth(SEED, 1_500), truth(SEED, 2_500, first=1_500)
    for counted in ("produced", "clean", "late", "duplicates", "trials"):
        assert getattr(whole, counted) == getattr(one, counted) + getattr(other, counted)


def test_every_fate_occurs(produced):
    assert {event.fate for event in produced} == set(Fate)
    assert set(truth(SEED, len(produced)).dead) == REASONS


def test_clean_payments_are_whole_in_time_and_unlike_each_other(produced):
    clean = of(produced, Fate.CLEAN)
    assert len({orjson.loads(event.value)["payment_id"] for event in clean}) == len(clean)
    assert all(orjson.loads(event.value)["card"].encode() == event.key for event in clean)
    assert all(orjson.loads(event.value)["amount"] >= 0 for event in clean)
    assert all(-1 <= lateness_us(event) <= 2_000_001 for event in clean)


def test_a_duplicate_repeats_a_clean_payment_of_the_same_key_a_little_earlier(produced):
    clean = {event.value: event for event in of(produced, Fate.CLEAN)}
    for event in of(produced, Fate.DUPLICATE):
        original = clean[event.value]
        assert original.key == event.key
        assert 0 < event.number - original.number < 100


def test_a_late_payment_is_three_to_twenty_minutes_late(produced):
    assert all(3 * 60e6 - 1 <= lateness_us(event) <= 20 * 60e6 + 1 for event in of(produced, Fate.LATE))


def test_a_payment_from_the_future_is_more_than_the_allowed_minute_ahead(produced):
    assert all(lateness_us(event) <= -10 * 60e6 + 1 for event in of(produced, Fate.DEAD, "too-far-ahead"))


def test_dead_letters_have_the_fault_they_are_dead_for(produced):
    for event in of(produced, Fate.DEAD, "not-json"):
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(event.value)
    wrong = [orjson.loads(event.value) for event in of(produced, Fate.DEAD, "wrong-type")]
    assert all(isinstance(fields["amount"], str) or fields["at"] == "yesterday" for fields in wrong)
    nameless = [orjson.loads(event.value) for event in of(produced, Fate.DEAD, "missing-id")]
    assert {fields.get("payment_id", "absent") for fields in nameless} == {None, "absent"}
    assert all(orjson.loads(event.value)["amount"] < 0 for event in of(produced, Fate.DEAD, "failed-check"))


def test_an_attack_is_one_card_at_many_merchants_with_high_amounts_within_seconds(produced):
    bursts = defaultdict(list)
    for event in of(produced, Fate.CLEAN):
        fields = orjson.loads(event.value)
        if fields["amount"] >= 400:
            bursts[event.number // 1_000, fields["card"]].append((event.moment_us, fields["merchant"]))
    attacks = [burst for burst in bursts.values() if len(burst) >= 10]
    assert len(attacks) == len(produced) // 1_000
    assert all(len({merchant for _, merchant in burst}) >= 10 for burst in attacks)
    assert all(burst[-1][0] - burst[0][0] <= 5_000_000 for burst in attacks)


def test_the_pattern_finds_every_card_that_was_tried_and_no_other(produced):
    operation, made = app.tested.made_by, list[OutputEvent]()
    operator, by_card = create_operator(operation), defaultdict(list)
    for event in of(produced, Fate.CLEAN) + of(produced, Fate.DUPLICATE):
        fields = orjson.loads(event.value)
        at_us = round(datetime.fromisoformat(fields["at"]).timestamp() * 1e6)
        place = (event.moment_us, 0, event.number)
        by_card[fields["card"]].append(InputEvent(0, fields["payment_id"], at_us, *place, fields | {"at": at_us}))
    for card, arrived in by_card.items():
        made += [
            one
            for one in advance_operator(operator, (card,), operator.create_state(), arrived, 1 << 61)
            if one.output == "out"
        ]
    tried = [event for event in produced if is_end_of_trial(SEED, event.number)]
    assert len(tried) == truth(SEED, len(produced)).trials == len(produced) // TRIAL_EVERY
    assert {one.values["large_last_id"] for one in made} == {f"p{SEED}-{event.number}" for event in tried}
    assert len(made) == len(tried)


def test_few_cards_make_most_payments(produced):
    by_card = defaultdict(int)
    for event in produced:
        by_card[event.key] += 1
    busiest = sorted(by_card.values(), reverse=True)
    assert sum(busiest[:100]) > 0.4 * len(produced)
    assert len(by_card) > 1_000


def test_the_gate_judges_every_payment_as_promised(produced):
    verdicts = classify_records(app.payments, [RawRecord(event.value, event.moment_us) for event in produced])
    judged = Counter((verdict.fate, (verdict.reason or "").split(":")[0]) for verdict in verdicts)
    counts = truth(SEED, len(produced))
    dead = {("dead", reason): times for reason, times in counts.dead.items()}
    assert judged == {("clean", ""): counts.clean, ("late", ""): counts.late} | dead


def test_a_view_fed_with_payments_drops_each_duplicate_once(produced):
    first = produced[:8_000]
    fed = hr.testing.feed(app.CardSpend, [event.value for event in first if event.fate in {Fate.CLEAN, Fate.DUPLICATE}])
    assert len(fed.duplicates) == truth(SEED, len(first)).duplicates


def test_of_half_the_clean_payments_it_is_told_what_they_were():
    timeline, count = Timeline(SEED, START_US, 200), 20_000
    told = {number: said for number in range(count) if (said := timeline.verdicts(number))}
    clean = [number for number in range(count) if timeline.event(number).fate is Fate.CLEAN]
    assert told.keys() <= set(clean)
    assert len(told) / len(clean) == pytest.approx(0.5, abs=0.02)
    for number, said in told.items():
        assert said[-1].fraud is is_fraud(SEED, number), "the last word is the truth"
        delay_us = said[0].moment_us - timeline.moment_us(number)
        assert 2_000_000 <= delay_us < 40_000_000
        assert orjson.loads(said[0].value)["payment_id"] == orjson.loads(timeline.event(number).value)["payment_id"]
    doubted = [said for said in told.values() if len(said) == 2]
    assert len(doubted) / len(told) == pytest.approx(0.01, abs=0.005)
    assert all(first.fraud is not last.fraud and first < last for first, last in doubted)
    frauds = [number for number in clean if is_fraud(SEED, number)]
    assert len([number for number in frauds if number in told]) / len(frauds) == pytest.approx(0.5, abs=0.1)
