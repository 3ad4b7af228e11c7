"""The book of outcomes: a batch counts once, and what the tables hold is taken up again."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.evaluate import standing
from headrace.evaluate.book import Book, OtherState, Tile, Tiles
from headrace.evaluate.buckets import CHANGES
from headrace.lake.formats import FORMATS, FormatName, begin
from headrace.lake.land import writing_session
from headrace.local.broker import Broker
from headrace.log.produce import Producer
from tests.evaluate.joining import prepared
from tests.lake.gated import read_topic
from tests.lake.read_back import read_back

MINUTE = 1_767_225_600_000_000
DAY = 86_400_000_000


def batch(spark: SparkSession, *rows: tuple[str, int, str | None, str]) -> DataFrame:
    """Changes of predictions: id, minute, state before and after."""
    said = [
        (event, "v1", "champion", "{}", minute_us, 0.5, None, before, None, after, None, None, None)
        for event, minute_us, before, after in rows
    ]
    return writing_session(spark).createDataFrame(said, CHANGES)


def by_day(changes: object, tiles: Tiles) -> Tiles:
    """A fold with one tile for each minute: how many changes it has."""
    found = {}
    for minute_us in changes["minute_us"].to_pylist():  # type: ignore[index]
        known = found.get(f"t{minute_us}") or tiles.get(f"t{minute_us}") or Tile(0, minute_us, "0")
        found[f"t{minute_us}"] = Tile(known.n + 1, minute_us, str(known.n + 1))
    return found


def opened(broker: Broker, lake: Path, model: object, checkpoint: Path) -> Book:
    book = Book(lake, model, (standing.fold, by_day), Producer(broker.address))  # type: ignore[arg-type]
    book.open(checkpoint)
    return book


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_that_comes_again_adds_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path, kind: FormatName
) -> None:
    begin(tmp_path / "lake", kind)
    model = prepared(broker.address)
    book = opened(broker, tmp_path / "lake", model, tmp_path / "checkpoint")
    first = batch(spark, ("p1", MINUTE, None, "pending"), ("p2", MINUTE, None, "pending"))
    second = batch(spark, ("p1", MINUTE, "pending", "matched"))
    for number, changes in ((0, first), (0, first), (1, second), (1, second), (0, first)):
        book.enter(changes, number)
    counts = standing.standing_of(book.tiles).counts
    assert counts == {("v1", "champion", "pending"): 1, ("v1", "champion", "matched"): 1}
    assert read_back(book.folders[0]).num_rows == 3
    assert book.tiles[f"t{MINUTE}"].n == 3


def test_what_a_crash_left_half_done_is_finished(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    model, checkpoint = prepared(broker.address), tmp_path / "checkpoint"
    book = opened(broker, tmp_path / "lake", model, checkpoint)
    book._folds = (_failing,)
    changes = batch(spark, ("p1", MINUTE, None, "pending"))
    with pytest.raises(RuntimeError):
        book.enter(changes, 0)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").touch()
    again = opened(broker, tmp_path / "lake", model, checkpoint)
    again.enter(changes, 0)
    assert read_back(again.folders[0]).num_rows == 1
    assert standing.standing_of(again.tiles).counts == {("v1", "champion", "pending"): 1}


def _failing(_changes: object, _tiles: Tiles) -> Tiles:
    raise RuntimeError("killed")


@pytest.mark.parametrize("kind", FORMATS)
def test_tiles_are_taken_up_again_by_day_and_told_again(
    spark: SparkSession, broker: Broker, tmp_path: Path, kind: FormatName
) -> None:
    begin(tmp_path / "lake", kind)
    model, checkpoint = prepared(broker.address), tmp_path / "checkpoint"
    book = opened(broker, tmp_path / "lake", model, checkpoint)
    days = [MINUTE + number * DAY for number in range(5)]
    for number, minute_us in enumerate(days):
        book.enter(batch(spark, (f"p{number}", minute_us, None, "pending")), number)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "4").touch()
    again = opened(broker, tmp_path / "lake", model, checkpoint)
    again.enter(batch(spark, ("late", days[0], None, "pending")), 5)
    assert again.tiles[f"t{days[0]}"].n == 2, "a day of long ago is looked up"
    assert standing.standing_of(again.tiles).counts == {("v1", "champion", "pending"): 6}
    told = [(record.key, record.value) for record in read_topic(broker.address, model.quality)]
    assert told[-1] == (f"t{days[0]}".encode(), b"2")
    assert told.count((f"t{days[4]}".encode(), b"1")) == 2, "at the start the newest are told once more"


def test_tables_without_their_checkpoint_are_refused(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    model = prepared(broker.address)
    opened(broker, tmp_path / "lake", model, tmp_path / "one").enter(batch(spark, ("p", MINUTE, None, "pending")), 0)
    with pytest.raises(OtherState, match=r"counted twice. Bring the checkpoint back"):
        opened(broker, tmp_path / "lake", model, tmp_path / "another")
