"""Joins the predictions and labels of a model until it is killed: python -m … BROKER FOLDER NAME."""

import math
import sys
import time
from pathlib import Path

from headrace.evaluate.feed import Feed
from headrace.evaluate.run import Join, Pace, Place
from headrace.local.jars import jar_paths
from headrace.stream.session import SparkPlace, start_session
from tests.evaluate.joining import lake_of, new_learning_model, new_model

RECORDS_A_BATCH = 12


def main(broker: str, folder: Path, name: str) -> None:
    spark = start_session(SparkPlace(None, 2, jar_paths("spark"), folder / "scratch"))
    model = new_learning_model(name) if name.startswith("taught") else new_model(name, default=False)
    feed = Feed(model, broker, RECORDS_A_BATCH)
    pace = Pace(batch_seconds=0.1, clock_seconds=math.inf, report_seconds=0.2)
    join = Join(spark, feed, Place(lake_of(broker, folder), folder, pace))
    join.start()
    said = 0
    while join.is_alive():
        folded = sum(tile.n for tile in join.book.tiles.values())
        if folded != said:
            sys.stdout.write(f"joined {folded}\n")
            sys.stdout.flush()
            said = folded
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
