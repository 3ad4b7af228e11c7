"""Joins the predictions and labels of a model until it is killed: python -m … stream|lake BROKER FOLDER NAME."""

import math
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.evaluate.by_lake import LakeJoin
from headrace.evaluate.by_stream import StreamJoin
from headrace.evaluate.join import Pace, Place
from headrace.evaluate.told import Feed
from headrace.lake.land import Lander, writing_session
from headrace.lake.table import LakeTable
from headrace.local.jars import jar_paths
from headrace.stream.session import SparkPlace, start_session
from tests.evaluate.joining import lake_of, new_learning_model, new_model

RECORDS_AT_ONCE = 12


def main(kind: str, broker: str, folder: Path, name: str) -> None:
    spark = start_session(SparkPlace(None, 2, jar_paths("spark"), folder / "scratch"))
    model = new_learning_model(name) if name.startswith("taught") else new_model(name, default=False)
    feed = Feed(model, broker, RECORDS_AT_ONCE)
    pace = Pace(batch_seconds=0.1, clock_seconds=math.inf, report_seconds=0.2, round_seconds=0.1)
    place = Place(lake_of(broker, folder), folder, pace)
    join = StreamJoin(spark, feed, place) if kind == "stream" else LakeJoin(spark, feed, place)
    if kind == "lake":
        landers = [landing(spark, feed, place, number) for number in range(2)]
        threading.Thread(target=lambda: land_for_ever(landers), daemon=True).start()
    join.start()
    said = 0
    while join.is_alive():
        folded = sum(tile.n for tile in join.book.tiles.values())
        if join.has_begun and folded != said:  # what was counted before it was killed is nothing it has joined
            sys.stdout.write(f"joined {folded}\n")
            sys.stdout.flush()
            said = folded
        time.sleep(0.05)


def landing(spark: SparkSession, feed: Feed, place: Place, number: int) -> Lander:
    table = LakeTable(place.lake.folder, feed.landings[number])
    table.prepare()
    return Lander(writing_session(spark), feed.broker, table, RECORDS_AT_ONCE)


def land_for_ever(landers: list[Lander]) -> None:
    while True:
        for lander in landers:
            lander.land()
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
