"""The label join on Spark: its outcomes equal brute force, once each, however often it is stopped."""

import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.declare.models.label_policy import label_policy_of
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.headers import position_headers
from headrace.kafka.producer.producer import Producer
from headrace.monitoring.outcomes import outcome_counts
from headrace.monitoring.outcomes.join_inputs import LabelJoinInputs
from headrace.monitoring.outcomes.label_join import JoinIntervals, LabelJoin, OutcomeJoinConfig
from headrace.monitoring.outcomes.outcomes import TOO_LATE, LabelEvent, PredictionEvent
from headrace.monitoring.outcomes.streaming_join import StreamingLabelJoin
from headrace.monitoring.quality.quality_table import QualityTable
from headrace.monitoring.quality.quality_tile import decode_tile, merge_tiles
from tests.lake.batch_gate import read_topic
from tests.monitoring.histories import MINUTE, SECOND, Standing, Told, brute_force
from tests.monitoring.prediction_records import FAR_US, lake_of, prepared, send, standings, tell_time
from tests.waiting import patiently, wait_until

QUICK = JoinIntervals(stream_batch_seconds=0.5, clock_seconds=math.inf, report_seconds=0.2)
NOW_US = time.time_ns() // 1000 // 1000 * 1000


@contextmanager
def joining(spark: SparkSession, model: hr.Model, broker: str, folder: Path) -> Iterator[StreamingLabelJoin]:
    """A join that runs for the length of the block."""
    join = StreamingLabelJoin(
        spark, LabelJoinInputs(model, broker), OutcomeJoinConfig(lake_of(broker, folder), folder, QUICK)
    )
    join.start()
    try:
        yield join
    finally:
        join.stop()
        join.join(patiently(30))


def hostile(seed: int, events: int = 60) -> list[Told]:
    """Predictions and labels of all kinds, some repeated, in an order of their own."""
    dice, told = random.Random(seed), list[Told]()
    for number in range(events):
        event, at_us = f"p{number}", NOW_US - 10 * MINUTE + number * SECOND
        if dice.random() < 0.85:
            score = dice.choice([0.1, 0.9, math.nan])
            told += [
                (event, PredictionEvent("v1", "champion", score, None, "{}", at_us, at_us + SECOND, 0, len(told)))
            ] * 2
        if dice.random() < 0.3:
            told.append(
                (event, PredictionEvent("v2", "challenger", 0.3, "block", "{}", at_us, at_us + SECOND, 0, len(told)))
            )
        for _ in range(dice.choice([0, 1, 1, 2])):
            label_us = at_us + dice.choice([-30 * SECOND, MINUTE, 4 * MINUTE, 6 * MINUTE])
            label = LabelEvent(label_us, label_us + dice.choice([0, MINUTE]), 0, len(told), dice.choice([0.0, 1.0]))
            told += [(event, label)] * dice.choice([1, 1, 2])
    dice.shuffle(told)
    return told


def in_log(told: list[Told]) -> list[Told]:
    """The same, with the predictions' offsets in the log."""
    return [
        (event, one._replace(offset=place) if isinstance(one, PredictionEvent) else one)
        for place, (event, one) in enumerate(told)
    ]


def test_what_is_written_is_brute_force_through_two_restarts(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model, told = prepared(broker.address, default=False), hostile(1)
    for begin, end in pairwise([0, 70, 110, len(told)]):
        send(broker.address, model, told[begin:end])
        with joining(spark, model, broker.address, tmp_path) as join:
            wait_for(model, tmp_path, told[:end], 0)
            require_standing(join, told[:end], 0)
    with joining(spark, model, broker.address, tmp_path) as join:
        tell_time(broker.address, model, FAR_US)
        wait_for(model, tmp_path, told, FAR_US)
        require_standing(join, told, FAR_US)


def test_where_labels_tell_their_own_arrivals_their_records_are_the_clock_a_day_behind(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model, day_us = prepared(broker.address, arrival="at"), 24 * 60 * MINUTE
    then_us = NOW_US - 4000 * day_us
    told = [
        (event, one._replace(time_us=one.time_us - NOW_US + then_us, arrival_us=one.arrival_us - NOW_US + then_us))
        for event, one in hostile(3)
    ]
    later_us = then_us + 3 * day_us
    later = [
        ("later", PredictionEvent("v1", "champion", 0.5, None, "{}", later_us, later_us, 0, 0)),
        ("nobody", LabelEvent(later_us, later_us, 0, 10_000, 1.0)),
    ]
    with joining(spark, model, broker.address, tmp_path) as join:
        send(broker.address, model, told)
        wait_for(model, tmp_path, told, 0)
        send(broker.address, model, later)
        wait_for(model, tmp_path, [*told, *later], later_us - day_us)
        require_standing(join, [*told, *later], later_us - day_us)
        wait_until(lambda: join._clock_us == later_us - day_us, 20, "the clock to be told")


def expected_of(join_model: hr.Model, told: list[Told], clock_us: int) -> Counter[Standing]:
    assert join_model.labels is not None
    return brute_force(in_log(told), label_policy_of(join_model.labels), clock_us)


def wait_for(model: hr.Model, folder: Path, told: list[Told], clock_us: int) -> None:
    """Wait until the changes in the lake add up to brute force."""
    expected = expected_of(model, told, clock_us)
    wait_until(lambda: standings(folder / "lake", model) == expected, 60, "all to be joined")


def require_standing(join: LabelJoin, told: list[Told], clock_us: int) -> None:
    """The counts that metrics show are those of the changes, once they are folded, after these are kept."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for of, n in expected_of(join.model, told, clock_us).items():
        counted[of[1], of[2], of[7]] += n
    wait_until(
        lambda: outcome_counts.counts_from_tiles(join.outcome_writer.tiles).counts == counted,
        30,
        "the changes to be folded",
    )
    assert quality_states(join) == {state: n for state, n in by_state(counted).items() if state != TOO_LATE}


def by_state(counts: Counter[tuple[str, str, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_version, _role, state), n in counts.items():
        found[state] += n
    return +found


def quality_states(join: LabelJoin) -> dict[str, int]:
    """The states that the published tiles of quality add up to."""
    table = QualityTable(join.model)
    for record in read_topic(join.broker, join.model.quality):
        table.apply_record(record.key or b"", record.value or b"")
    every = [decode_tile(table.layout, value) for _key, value in table._values_between(-1, FAR_US)]
    return {state: n for state, n in merge_tiles(table.layout, every).states.items() if n}


def state_rows(join: StreamingLabelJoin) -> int:
    """How many rows the join remembered after its last batch."""
    last = join._query.lastProgress if join._query is not None else None
    return -1 if last is None else sum(operator["numRowsTotal"] for operator in json.loads(last.json)["stateOperators"])


def endure_orphans(spark: SparkSession, broker: str, folder: Path, count: int) -> None:
    """Labels of unknown ids: kept for a while, counted once, then dropped."""
    model = prepared(broker, default=False)
    labels = ((f"nobody{number}", LabelEvent(NOW_US, NOW_US, number % 2, number, 1.0)) for number in range(count))
    send(broker, model, labels)
    with joining(spark, model, broker, folder) as join:
        orphans = ("", "", "orphan")
        wait_until(
            lambda: outcome_counts.counts_from_tiles(join.outcome_writer.tiles).counts[orphans] == count,
            600,
            "all to be counted",
        )
        wait_until(lambda: state_rows(join) >= count, 60, "Spark's account of its state")
        assert state_rows(join) < 1.1 * count + 1000
        tell_time(broker, model, FAR_US)
        wait_until(lambda: state_rows(join) == 0, 300, "all to be forgotten")
        assert outcome_counts.counts_from_tiles(join.outcome_writer.tiles).counts[orphans] == count


def test_labels_of_unknown_ids_are_counted_and_forgotten(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    endure_orphans(spark, broker.address, tmp_path, 2000)


@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_a_million_labels_of_unknown_ids_are_forgotten(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    endure_orphans(spark, broker.address, tmp_path, 1_000_000)


def test_whatever_is_no_prediction_and_no_label_stops_nothing(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model, told = prepared(broker.address), hostile(2, events=3)
    with Producer(broker.address) as producer:
        for value in (b"", b"{", b"[]", b'{"version": 3, "role": "champion", "event_time_us": 9e99}', b"\xff\xfe"):
            producer.send(model.predictions, value, key="p0", partition=0)
        far = {"version": "v1", "role": "champion", "score": 0.1, "event_time_us": 10**17, "decided_at_us": 10**17}
        producer.send(model.predictions, {**far, "arrival_us": 10**17}, key="tomorrow", partition=0)
        assert model.labels is not None
        for value in (
            b"",
            b"{",
            b'{"id": "p0"}',
            b'{"id": "p0", "fraud": null, "at": 0}',
            b'{"id": "p0", "fraud": "x"}',
        ):
            headers = position_headers(900, NOW_US)
            producer.send(model.labels.stream.clean, value, key="p0", partition=1, headers=headers)
        producer.send(model.labels.stream.clean, b'{"id": "p0", "fraud": true, "at": 0}', key="p0", partition=1)
    send(broker.address, model, told)
    with joining(spark, model, broker.address, tmp_path):
        expected = expected_of(model, told, 0)
        wait_until(lambda: known(tmp_path, model, {event for event, _ in told}) == expected, 60, "all to be joined")
        tell_time(broker.address, model, FAR_US)
        wait_until(lambda: states_of(tmp_path, model, "tomorrow") == ["expired"], 30, "tomorrow to be over")


def states_of(folder: Path, model: hr.Model, event: str) -> list[str]:
    return [of[7] for of in known(folder, model, {event})]


def known(folder: Path, model: hr.Model, events: set[str]) -> Counter[Standing]:
    """The standings of some events."""
    every = standings(folder / "lake", model)
    return Counter({of: n for of, n in every.items() if of[0] in events})
