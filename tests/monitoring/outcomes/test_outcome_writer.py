"""The outcome writer: a batch counts once, and a restart resumes from the tables."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.producer.producer import Producer
from headrace.lake.formats.registry import FORMATS, FormatName, create_lake
from headrace.lake.ingestion.ingest_step import new_write_session
from headrace.monitoring.outcomes import outcome_counts
from headrace.monitoring.outcomes.join_processor import CHANGE_COLUMNS
from headrace.monitoring.outcomes.outcome_writer import (
    OutcomeCheckpointMismatchError,
    OutcomeTile,
    OutcomeTiles,
    OutcomeWriter,
)
from tests.lake.batch_gate import read_topic
from tests.lake.read_back import read_back
from tests.monitoring.prediction_records import prepared

MINUTE = 1_767_225_600_000_000
DAY = 86_400_000_000


def batch(spark: SparkSession, *rows: tuple[str, int, str | None, str]) -> DataFrame:
    """Changes of predictions: id, minute, state before and after."""
    said = [
        (event, "v1", "champion", "{}", minute_us, 0.5, None, before, None, after, None, None, None)
        for event, minute_us, before, after in rows
    ]
    return new_write_session(spark).createDataFrame(said, CHANGE_COLUMNS)


def by_day(changes: object, tiles: OutcomeTiles) -> OutcomeTiles:
    """A fold with one tile for each minute: how many changes it has."""
    found = {}
    for minute_us in changes["minute_us"].to_pylist():  # type: ignore[index]
        known = found.get(f"t{minute_us}") or tiles.get(f"t{minute_us}") or OutcomeTile(0, minute_us, "0")
        found[f"t{minute_us}"] = OutcomeTile(known.n + 1, minute_us, str(known.n + 1))
    return found


def opened(broker: EmbeddedBroker, lake: Path, model: object, checkpoint: Path) -> OutcomeWriter:
    book = OutcomeWriter(lake, model, (outcome_counts.fold_counts, by_day), Producer(broker.address))  # type: ignore[arg-type]
    book.open(checkpoint)
    return book


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_that_comes_again_adds_nothing(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, kind: FormatName
) -> None:
    create_lake(tmp_path / "lake", kind)
    model = prepared(broker.address)
    book = opened(broker, tmp_path / "lake", model, tmp_path / "checkpoint")
    first = batch(spark, ("p1", MINUTE, None, "pending"), ("p2", MINUTE, None, "pending"))
    second = batch(spark, ("p1", MINUTE, "pending", "matched"))
    for number, changes in ((0, first), (0, first), (1, second), (1, second), (0, first)):
        book.write_batch(changes, number)
    counts = outcome_counts.counts_from_tiles(book.tiles).counts
    assert counts == {("v1", "champion", "pending"): 1, ("v1", "champion", "matched"): 1}
    assert read_back(book.folders[0]).num_rows == 3
    assert book.tiles[f"t{MINUTE}"].n == 3


def test_what_a_crash_left_half_done_is_finished(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    model, checkpoint = prepared(broker.address), tmp_path / "checkpoint"
    book = opened(broker, tmp_path / "lake", model, checkpoint)
    book._folds = (_failing,)
    changes = batch(spark, ("p1", MINUTE, None, "pending"))
    with pytest.raises(RuntimeError):
        book.write_batch(changes, 0)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").touch()
    again = opened(broker, tmp_path / "lake", model, checkpoint)
    again.write_batch(changes, 0)
    assert read_back(again.folders[0]).num_rows == 1
    assert outcome_counts.counts_from_tiles(again.tiles).counts == {("v1", "champion", "pending"): 1}


def _failing(_changes: object, _tiles: OutcomeTiles) -> OutcomeTiles:
    raise RuntimeError("killed")


@pytest.mark.parametrize("kind", FORMATS)
def test_tiles_are_taken_up_again_by_day_and_told_again(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, kind: FormatName
) -> None:
    create_lake(tmp_path / "lake", kind)
    model, checkpoint = prepared(broker.address), tmp_path / "checkpoint"
    book = opened(broker, tmp_path / "lake", model, checkpoint)
    days = [MINUTE + number * DAY for number in range(5)]
    for number, minute_us in enumerate(days):
        book.write_batch(batch(spark, (f"p{number}", minute_us, None, "pending")), number)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "4").touch()
    again = opened(broker, tmp_path / "lake", model, checkpoint)
    again.write_batch(batch(spark, ("late", days[0], None, "pending")), 5)
    assert again.tiles[f"t{days[0]}"].n == 2, "a day of long ago is looked up"
    assert outcome_counts.counts_from_tiles(again.tiles).counts == {("v1", "champion", "pending"): 6}
    told = [(record.key, record.value) for record in read_topic(broker.address, model.quality)]
    assert told[-1] == (f"t{days[0]}".encode(), b"2")
    assert told.count((f"t{days[4]}".encode(), b"1")) == 2, "at the start the newest are told once more"


def test_tables_without_their_checkpoint_are_refused(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model = prepared(broker.address)
    opened(broker, tmp_path / "lake", model, tmp_path / "one").write_batch(
        batch(spark, ("p", MINUTE, None, "pending")), 0
    )
    with pytest.raises(OutcomeCheckpointMismatchError, match=r"counted twice. Bring the checkpoint back"):
        opened(broker, tmp_path / "lake", model, tmp_path / "another")
