"""History folded in a batch and the stream after it: together they have every event once, despite kills."""

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.declare.features.view import Feature, View
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.lake.backfill.backfill import backfill_view, write_history
from headrace.lake.backfill.cutover import BackfillConfig, BackfillRefused, begin_or_resume_backfill
from headrace.lake.formats.table_format import LakeTableMissing
from headrace.lake.ingestion.table_mapping import silver_mapping
from headrace.lake.lake_table import LakeTable, TablePosition
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.spark.checkpoints.state_plan import StatePlan
from headrace.spark.execution.app_queries import QueryPartitions, StreamingConfig, tiles_spec
from headrace.spark.execution.lanes import Lane, start_query
from headrace.spark.tiles.backfill_cutovers import Cutover, CutoverGapError, backfill_file, load_backfill
from headrace.spark.tiles.query_versions import plan_query_versions, save_query_versions
from tests.e2e.hostile_load import arrived, send, sent_now
from tests.lake.backfill_app import EIGHT_DAYS, few_aggregates
from tests.lake.batch_gate import land, pass_gate, read_topic
from tests.oracle import brute
from tests.oracle.everything import every_aggregate, hostile_stream
from tests.oracle.several_streams import payments, refunds, sent_to
from tests.oracle.streams import DAY_US, Sent
from tests.oracle.test_kernel_is_brute_force import agrees
from tests.waiting import patiently, wait_until

ROOT = Path(__file__).parents[3]
APP = Path(__file__).parents[1] / "backfill_app.py"
ViewOf = Callable[[str, hr.Stream, str], View]
_numbers = count()


@dataclass
class Story:
    """A hostile stream, what was sent to it so far, and a view that was added late; of several streams, one of them."""

    spark: SparkSession
    broker: str
    stream: hr.Stream
    view: View
    place: BackfillConfig
    sent: list[Sent]

    @classmethod
    def told(cls, spark: SparkSession, broker: str, folder: Path, view_of: ViewOf = few_aggregates) -> "Story":
        stream = hostile_stream(f"filled{os.getpid()}x{next(_numbers)}", EIGHT_DAYS)
        return cls.of(stream, view_of(f"By{stream.name}", stream, "card"), spark, broker, folder)

    @classmethod
    def of(cls, stream: hr.Stream, view: View, spark: SparkSession, broker: str, folder: Path) -> "Story":
        ensure_topics(broker, [stream])
        return cls(spark, broker, stream, view, BackfillConfig(folder / "lake", broker, folder / "state"), [])

    def happen(self, events: list[Sent], key: str = "card") -> None:
        """Events are sent and pass the gate, and with them once more all that came before, as after a crash."""
        send(self.broker, self.stream.name, events, len(self.sent), key)
        self.sent += events
        pass_gate(self.spark, self.broker, self.stream)

    def land(self) -> None:
        land(self.spark, self.broker, self.place.lake, silver_mapping(self.stream))

    def stream_on(self) -> None:
        """The query that `headrace up` starts for the view, until it has read all there is."""
        generations = plan_query_versions(self.stream, [self.view], self.place.state, 2)
        StatePlan((generations,), ()).require_compatible()
        save_query_versions(generations, self.place.state)
        (generation,) = generations.versions
        spec = tiles_spec(
            self.stream,
            generation,
            StreamingConfig(self.broker, self.place.state),
            QueryPartitions(2, 2),
            {self.view.name: 2},
        )
        start_query(self.spark.newSession(), spec, Lane.DRAINING).awaitTermination()

    def differences(self) -> Iterator[tuple[Any, ...]]:
        """Where the values of a store, filled from the changelog, differ from brute force over all events."""
        yield from differences(self.broker, self.view, self.counted())

    def counted(self) -> list[dict[str, Any]]:
        """What counts of all that was sent."""
        return brute.counted(self.stream, arrived(self.broker, self.stream.name, self.sent))


def differences(broker: str, view: View, counted: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    store = MemoryStore([view])
    store.apply(read_topic(broker, view.topic))
    last_us = max(store.tables[view.name].newest_time_us, *(brute.time_of(view, event) for event in counted))
    for entity in {(event["card"],) for event in counted}:
        expected = brute.features(view, counted, entity, last_us)
        (read,) = store.read(view.name, [entity], last_us)
        for feature, value in zip(view.features, read.values, strict=True):
            if not right(feature, value, expected[feature.name]):
                yield entity, feature.name, value, expected[feature.name]


def right(feature: Feature, value: Any, expected: brute.Expected) -> bool:
    if value is not None and expected.within is not None:
        return expected.within[0] <= float(value) <= expected.within[1]
    return agrees(feature, value, *expected)


def until_the_cut(story: Story, seed: int) -> list[Sent]:
    """Tell a story of which the lake has a part and the log a little more; gives what is still to come."""
    sent = sent_now(seed, 500, 7 * DAY_US)
    story.happen(sent[:300])
    story.land()
    story.happen(sent[300:360])
    return sent[360:]


def repeats(story: Story, seed: int) -> list[Sent]:
    """Events of before and after the cut once more, some in another partition than the first time.

    What an id said first: of two contents in two partitions a batch may take either for the first.
    """
    first: dict[str, Sent] = {}
    for one in story.sent:
        first.setdefault(one.values["id"], one)
    return random.Random(seed).sample(list(first.values()), 80)


def test_history_and_stream_together_are_every_event_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    story = Story.told(spark, broker.address, tmp_path, every_aggregate)
    to_come = until_the_cut(story, seed=4)
    said: list[str] = []
    done = backfill_view(lambda: spark, story.view, story.place, said.append)
    assert 0 < sum(done.cuts[story.stream.name].raw) <= 340
    assert "is backfilled" in said[-1]
    story.happen(repeats(story, 1), key="id")
    story.happen(to_come)
    story.stream_on()
    story.happen(repeats(story, 2), key="id")
    story.stream_on()
    assert list(story.differences()) == []
    assert backfill_view(pytest.fail, story.view, story.place, said.append) == done
    assert said[-1].endswith("is backfilled already")


def test_history_and_streams_of_a_view_of_several_are_every_event_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    number = f"{os.getpid()}x{next(_numbers)}"
    streams = payments(EIGHT_DAYS, f"paid{number}"), refunds(EIGHT_DAYS, f"refunds{number}")
    view = replace(few_aggregates(f"Both{number}", streams, "card"), salt=3)
    stories = [Story.of(stream, view, spark, broker.address, tmp_path) for stream in streams]
    sent = sent_to(streams, sent_now(5, 300, 7 * DAY_US), [])
    for story in stories:
        story.happen(sent[story.stream.name][:150])
        story.land()
        story.happen(sent[story.stream.name][150:200])
    done = backfill_view(lambda: spark, view, stories[0].place, lambda _: None)
    assert set(done.cuts) == {stream.name for stream in streams}
    for story in stories:
        story.happen([*sent[story.stream.name][200:], *random.Random(1).sample(story.sent, 40)])
        story.stream_on()
    counted = brute.united(view, {story.stream.name: story.counted() for story in stories})
    assert list(differences(broker.address, view, counted)) == []


def endure(spark: SparkSession, broker: str, folder: Path, kills: int) -> None:
    story = Story.told(spark, broker, folder)
    to_come = until_the_cut(story, seed=kills)
    output, dice, cuts = folder / "backfill.out", random.Random(kills), []
    for _ in range(kills):
        kill_a_backfill(story, output, dice)
        cuts.append(load_backfill(story.place.state, story.view))
        story.happen(repeats(story, len(cuts)), key="id")
        story.land()
    done = backfill_view(lambda: spark, story.view, story.place, lambda _: None)
    assert all(found.cuts == done.cuts for found in cuts if found)
    story.happen(to_come)
    story.stream_on()
    assert list(story.differences()) == []


def kill_a_backfill(story: Story, output: Path, dice: random.Random) -> None:
    """`headrace backfill` with its Spark, killed at a random moment after it has started to fold."""
    flags = ["--lake", str(story.place.lake), "--state", str(story.place.state), "--broker", story.broker]
    command = [sys.executable, "-m", "headrace", "backfill", str(APP), story.view.name, *flags]
    output.write_text("")
    running = ChildProcess(command, folder=ROOT, output=output)
    running.start({**os.environ, "BACKFILLED": story.stream.name})
    try:
        wait_until(lambda: "folding" in output.read_text() or not running.is_alive(), 120, "folding", output.read_text)
        assert running.is_alive(), output.read_text()
        running.wait(dice.uniform(0, 3))
    finally:
        if running.is_alive():
            os.kill(running.pid, signal.SIGKILL)
        assert running.wait(patiently(20))


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_a_backfill_killed_ten_times_counts_every_event_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    endure(spark, broker.address, tmp_path, kills=10)


@pytest.fixture
def story(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> Story:
    """A short story, which has landed."""
    story = Story.told(spark, broker.address, tmp_path)
    story.happen(sent_now(7, 20, DAY_US))
    story.land()
    return story


def test_what_is_written_twice_is_the_same_tile_twice(story: Story) -> None:
    backfill, (stream,) = begin_or_resume_backfill(story.view, story.place), story.view.streams
    for _ in range(2):
        write_history(story.spark, story.view, stream, backfill.cuts[stream.name], story.place, lambda _: None)
    records = read_topic(story.broker, story.view.topic)
    tiles = {(record.partition, record.key): json.loads(record.value)["n"] for record in records}
    assert len(records) == 2 * len(tiles) > 0
    assert all(json.loads(record.value)["n"] == tiles[record.partition, record.key] for record in records)
    assert not load_backfill(story.place.state, story.view).is_done


def test_the_cut_stays_though_more_has_landed(story: Story) -> None:
    first = begin_or_resume_backfill(story.view, story.place)
    story.happen(sent_now(8, 20, DAY_US))
    story.land()
    assert begin_or_resume_backfill(story.view, story.place) == first


def test_a_view_that_is_kept_already_or_has_tiles_is_refused(story: Story) -> None:
    save_query_versions(plan_query_versions(story.stream, [story.view], story.place.state, 2), story.place.state)
    with pytest.raises(BackfillRefused, match="Give the view another name"):
        begin_or_resume_backfill(story.view, story.place)
    (story.place.state / "generations" / f"{story.stream.name}.json").unlink()
    ensure_topics(story.broker, [story.stream], [story.view])
    with Producer(story.broker) as producer:
        producer.send(story.view.topic, b"{}", key=b"{}")
    with pytest.raises(BackfillRefused, match="has tiles already"):
        begin_or_resume_backfill(story.view, story.place)
    assert not backfill_file(story.place.state, story.view.name).exists()


def test_a_view_that_changed_after_its_backfill_began_is_refused(story: Story) -> None:
    begin_or_resume_backfill(story.view, story.place)
    changed = every_aggregate(story.view.name, story.stream, "card")
    with pytest.raises(BackfillRefused, match="has changed since its backfill began"):
        begin_or_resume_backfill(changed, story.place)


def test_a_lake_that_has_read_another_log_is_refused(story: Story) -> None:
    LakeTable(story.place.lake, silver_mapping(story.stream)).commit(
        [], {0: TablePosition(last_read=10_000, last_written=10_000)}
    )
    with pytest.raises(BackfillRefused, match="it has read another log"):
        begin_or_resume_backfill(story.view, story.place)


def test_without_a_lake_there_is_no_history(story: Story, tmp_path: Path) -> None:
    with pytest.raises(LakeTableMissing, match="There is no table at"):
        begin_or_resume_backfill(story.view, replace(story.place, lake=tmp_path / "elsewhere"))


def test_a_gap_between_history_and_log_is_refused() -> None:
    Cutover((5, 9), (4, 8)).require_within_log("Spend", "payments.clean", [4, 0])
    with pytest.raises(CutoverGapError, match=r"payments.clean-1@8, but that log begins at 10: 2 records"):
        Cutover((5, 9), (4, 8)).require_within_log("Spend", "payments.clean", [0, 10])
