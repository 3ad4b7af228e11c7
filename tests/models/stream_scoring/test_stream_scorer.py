"""Each event of a stream is scored once, on features that include it, or its prediction names what is degraded."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import uvloop
from onnx import helper

from headrace.declare.app import App
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import Partition
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.models import ScorerProgress
from headrace.models.inference.prediction import Prediction
from headrace.models.inference.scorer import load_scorer
from headrace.models.stream_scoring.scored_ids import ScoredIds
from headrace.models.stream_scoring.scoring_part import ScoringConfig, score_until
from headrace.models.stream_scoring.stream_scorer import ScoringContext, StreamScorer
from headrace.models.versions.live_versions import LiveVersions, VersionWatcher
from headrace.online_store.feature_lookup import StoreUnavailable
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.metrics.metrics_route import scorer_metrics
from tests.models.cards import versions_of
from tests.models.networks import FLOAT, network, weighing
from tests.models.simulated_stream import INPUTS, Played, final, ids, new_app
from tests.waiting import wait_until


class Hand:
    """A scorer that a test hands records to, with a store that it feeds."""

    def __init__(self, played: Played, state: Path) -> None:
        self.played, self.store = played, MemoryStore(played.app.views)
        self.lineup = VersionWatcher.load(played.model, state)
        self.online = MemoryStoreReader(self.store, None)
        self.loop = uvloop.new_event_loop()
        self.scorer = self.new_scorer()

    def new_scorer(self) -> StreamScorer:
        scored = ScoredIds(self.played.broker, self.played.model)
        bench = ScoringContext(self.online, self.lineup, Producer(self.played.broker), scored, self.loop)
        scorer = StreamScorer(self.played.model, bench)
        scorer.on_partitions_assigned([])
        return scorer

    def take(self, *events: dict[str, Any], applied: bool = True, arrival_us: int | None = None) -> None:
        records = [self.played.clean(event, arrival_us) for event in events]
        for record in records:
            tiles = self.played.tiles(record)
            self.store.apply(tiles if applied else [])
        self.scorer.add_records(records)

    def decided(self, count: int) -> list[Prediction]:
        """Run until that many records are processed; returns the log."""
        done = []
        wait_until(lambda: len(done.extend(self.scorer.process_ready()) or done) >= count, 5, "the scorer")
        self.scorer.flush()
        return self.played.predictions()


@pytest.fixture
def hand(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Hand]:
    found = Hand(Played(new_app(tmp_path, broker.address, budget="8s"), broker.address), tmp_path)
    yield found
    found.loop.close()


@pytest.fixture
def hasty(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Hand]:
    """It waits for no tile longer than 50 ms."""
    found = Hand(Played(new_app(tmp_path, broker.address, budget="50ms"), broker.address), tmp_path)
    yield found
    found.loop.close()


def test_a_vector_has_the_event_itself_and_the_record_everything_it_was_made_from(hand: Hand) -> None:
    hand.take(*(hand.played.event(number, "c1") for number in range(3)))
    found = hand.decided(3)
    assert sorted(ids(found)) == ["e0", "e1", "e2"]
    for one in found:
        assert one.degraded == ()
        assert one.features == hand.played.expected(one)
        assert one.score == pytest.approx(sum(value or 0 for value in one.features.values()), rel=1e-6)
        assert one.decision == ("block" if (one.score or 0) >= 100 else None)
        assert one.read_at_us == one.arrival_us
        assert one.decided_at_us >= one.arrival_us
        assert (one.source, one.role, one.version) == ("stream", "champion", hand.lineup.live_versions.champion.version)
    assert {one.features["taps_1h"] for one in found} == {3}
    assert sorted((one.partition, one.offset) for one in found) == [(found[0].partition, number) for number in range(3)]


def test_an_event_waits_for_its_tiles_and_no_longer(hand: Hand) -> None:
    event = hand.played.event(1, "c1")
    record = hand.played.clean(event)
    hand.scorer.add_records([record])
    assert hand.scorer.process_ready() == []
    tiles = hand.played.tiles(record)
    hand.store.apply(tiles[:1])
    assert hand.scorer.process_ready() == []  # one hop of two has heard of it
    hand.store.apply(tiles)
    (one,) = hand.decided(1)
    assert (one.degraded, one.features["taps_1h"]) == ((), 1)


def test_who_waits_is_woken_by_a_tile(hand: Hand) -> None:
    record = hand.played.clean(hand.played.event(1, "c1"))
    hand.scorer.add_records([record])
    assert hand.scorer.process_ready() == []
    began = time.monotonic()
    threading.Thread(target=hand.store.apply, args=(hand.played.tiles(record),)).start()
    hand.scorer.wait_for_progress(600)
    assert time.monotonic() - began < 300
    assert hand.scorer.process_ready() == [record]


def test_what_the_store_has_not_heard_of_in_time_goes_out_as_stale(hasty: Hand) -> None:
    hasty.take(hasty.played.event(1, "c1"), applied=False)
    (one,) = hasty.decided(1)
    assert one.degraded == ("stale",)
    assert one.features == dict(zip(INPUTS, (0, 0, None, None, 1.0), strict=True))
    assert one.known == {hasty.played.view.name: [[0, 0]] * 2}
    assert (one.latency_ms or 0) >= 40


def test_another_event_of_the_card_does_not_stand_for_this_one(hand: Hand) -> None:
    first, second = hand.played.event(1, "c1"), hand.played.event(2, "c1")
    hand.take(first, arrival_us=time.time_ns() // 1_000_000 * 1000 - 3000)
    hand.decided(1)
    hand.scorer.add_records([hand.played.clean(second)])
    assert hand.scorer.process_ready() == []


def test_an_event_that_comes_again_is_scored_once_and_by_the_next_scorer_too(hand: Hand) -> None:
    event = hand.played.event(1)
    hand.take(event, event)
    hand.take(event)
    hand.decided(3)
    hand.scorer = hand.new_scorer()
    hand.take(event, hand.played.event(2))
    assert sorted(ids(hand.decided(2))) == ["e1", "e2"]


def test_what_is_given_up_is_scored_by_whoever_gets_it(hand: Hand) -> None:
    event = hand.played.event(1)
    record = hand.played.clean(event)
    hand.scorer.add_records([record])
    hand.scorer.on_partitions_revoked([Partition(record.topic, record.partition)])
    assert hand.scorer.process_ready() == []
    hand.take(event)
    assert ids(hand.decided(1)) == ["e1"]


def test_an_event_whose_time_the_store_has_let_go_of_is_read_at_this_moment_and_says_so(hand: Hand) -> None:
    hand.take(hand.played.event(1, "c1"))
    hand.decided(1)
    old_us = time.time_ns() // 1_000_000 * 1000 - 300_000_000
    hand.take({**hand.played.event(2, "c1"), "at": old_us // 1000}, arrival_us=old_us)
    found = {one.event_id: one for one in hand.decided(1)}
    assert found["e2"].degraded == ("late",)
    assert found["e2"].read_at_us > old_us + 299_000_000
    assert found["e2"].features["taps_1h"] == 2


def test_an_event_of_recorded_history_that_is_let_go_of_is_read_at_the_newest_recorded_time(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    app = new_app(tmp_path, broker.address, stream='arrival="at"')
    recorded = Hand(Played(app, broker.address), tmp_path)
    minute_us, newest_us = 60_000_000, 1_357_000_000_000_000
    for number, before_us in ((1, 0), (2, 30 * minute_us), (3, 3 * 1440 * minute_us)):
        at_us = newest_us - before_us
        recorded.take({**recorded.played.event(number, "c1"), "at": at_us // 1000}, arrival_us=at_us)
    found = {one.event_id: one for one in recorded.decided(3)}
    recorded.loop.close()
    assert (found["e2"].degraded, found["e2"].read_at_us) == ((), newest_us - 30 * minute_us)
    assert found["e2"].features["taps_1h"] == 1
    assert (found["e3"].degraded, found["e3"].read_at_us) == (("stale", "late"), newest_us)
    assert found["e3"].features["taps_1h"] == 2


def test_a_backlog_is_not_waited_for_one_by_one(hand: Hand) -> None:
    old_us = time.time_ns() // 1_000_000 * 1000 - 10_000_000
    hand.take(*(hand.played.event(number) for number in range(500)), applied=False, arrival_us=old_us)
    assert len(hand.scorer.process_ready()) == 500


def test_challengers_score_the_same_vector(hand: Hand) -> None:
    champion = hand.lineup.live_versions.champion
    other = replace(champion, version="2", scorer=load_scorer(hand.played.model, weighing(len(INPUTS), 2.0), "two"))
    hand.lineup.live_versions = LiveVersions(champion, (other,))
    hand.take(hand.played.event(3))
    found = {one.role: one for one in hand.decided(1)}
    assert found["challenger"].version == "2"
    assert found["challenger"].features == found["champion"].features
    assert found["challenger"].score == pytest.approx(2 * (found["champion"].score or math.nan))
    assert hand.scorer.counts.predictions == {(champion.version, "champion"): 1, ("2", "challenger"): 1}


def test_a_model_that_answers_with_no_number_stops_nobody(hand: Hand) -> None:
    loaded = replace(hand.lineup.live_versions.champion, scorer=load_scorer(hand.played.model, rooting(), "root"))
    hand.lineup.live_versions = LiveVersions(loaded)
    hand.take({**hand.played.event(1), "amount": -4.0}, {**hand.played.event(2), "amount": 9.0})
    found = {one.event_id: one for one in hand.decided(2)}
    assert (found["e1"].score, found["e1"].decision, found["e1"].degraded) == (None, None, ("model",))
    assert (found["e2"].score, found["e2"].degraded) == (3.0, ())
    assert hand.scorer.counts.degraded == {"model": 1}


def test_a_model_that_raises_on_a_row_fails_on_that_row_alone(hand: Hand) -> None:
    class Raising:
        columns = hand.lineup.live_versions.champion.scorer.columns

        def score_rows(self, rows: list[tuple[Any, ...]], _within_s: float) -> Any:
            if any(row[-1] == 2.0 for row in rows):
                raise RuntimeError("two is too many")
            return hand_scorer.score_rows(rows)

    hand_scorer = hand.lineup.live_versions.champion.scorer
    hand.lineup.live_versions = LiveVersions(replace(hand.lineup.live_versions.champion, scorer=Raising()))  # type: ignore[arg-type]
    hand.take(*map(hand.played.event, (1, 2, 3)))
    found = {one.event_id: one.degraded for one in hand.decided(3)}
    assert found == {"e1": (), "e2": ("model",), "e3": ()}


def test_a_store_that_is_gone_is_waited_for(hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(*_: Any) -> Any:
        raise StoreUnavailable("gone")

    hand.take(hand.played.event(1))
    with monkeypatch.context() as patch:
        patch.setattr(hand.online, "read", gone)
        assert hand.scorer.process_ready() == []
    assert ids(hand.decided(1)) == ["e1"]


def rooting() -> bytes:
    node = helper.make_node("Sqrt", ["amount"], ["score"])
    return network([node], [("amount", FLOAT, [None, 1])], [("score", FLOAT, [None, 1])])


@contextmanager
def scoring(app: App, broker: str, state: Path) -> Iterator[threading.Thread]:
    """The scoring part of an app in this process."""
    stop = threading.Event()
    thread = threading.Thread(target=score_until, args=(app, ScoringConfig(broker, "memory", state), stop))
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()


def test_the_part_scores_what_the_log_brings_and_tells_how_it_fares(broker: EmbeddedBroker, tmp_path: Path) -> None:
    played = Played(new_app(tmp_path, broker.address), broker.address)
    board = ProgressTable()
    with scoring(played.app, broker.address, tmp_path), TailingConsumer(broker.address, [PROGRESS_TOPIC], board.apply):
        for number in range(100):
            alone = number == 50  # whose tiles never come
            played.send(played.clean(played.event(number, "alone" if alone else None)), tiles=not alone)
        wait_until(lambda: len(played.predictions()) >= 100, 20, "100 predictions")
        scored = ("headrace_score_seconds_count", played.model.name)
        wait_until(lambda: metrics(board).get(scored) == 100, 10, "100 predictions to be told of")
        wait_until(lambda: metrics(board).get(("headrace_score_lag", played.model.name)) == 0, 10, "the lag")
        told = metrics(board)
    found = final(played.predictions())
    assert len(found) == 100
    assert all(one.features == played.expected(one) for one in found.values() if one.event_id != "e50")
    (version,) = {one.version for one in found.values()}
    assert told["headrace_predictions_total", played.model.name, version, "champion"] == 100
    assert told["headrace_score_seconds_count", played.model.name] == 100
    stale = [one.event_id for one in found.values() if one.degraded == ("stale",)]
    assert "e50" in stale
    assert told["headrace_degraded_total", played.model.name, "stale"] == len(stale)


def metrics(board: ProgressTable) -> dict[tuple[str, ...], float]:
    samples = [sample for family in scorer_metrics(board.latest(ScorerProgress)) for sample in family.samples]
    return {(one.name, *one.labels.values()): one.value for one in samples}


def test_a_model_without_a_champion_waits_for_one(
    broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    played = Played(new_app(tmp_path, broker.address, source="train=len"), broker.address)
    with scoring(played.app, broker.address, tmp_path) as thread:
        wait_until(lambda: "has no champion" in caplog.text, 10, "the scorer to say so")
        played.send(played.clean(played.event(1)))
        versions = versions_of(tmp_path, weighing(len(INPUTS)), weighing(len(INPUTS), 3.0), model=played.model.name)
        wait_until(lambda: ids(played.predictions()) == ["e1"], 20, "its first prediction")
        versions.promote("2")
        sent = count(2)
        wait_until(lambda: played.sent_one(next(sent)).version == "2", 20, "the promoted version to score")
        assert thread.is_alive()
    assert caplog.text.count("has no champion") == 1
    weights = {"1": 1.0, "2": 3.0}
    for one in played.predictions():
        assert one.score == pytest.approx(weights[one.version] * sum(value or 0 for value in one.features.values()))
