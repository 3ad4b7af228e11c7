"""Joins the predictions and labels of a model until it is killed: python -m … stream|lake BROKER FOLDER NAME."""

import math
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.embedded_servers.jars import jar_paths
from headrace.lake.ingestion.ingest_step import TableIngester, new_write_session
from headrace.lake.lake_table import LakeTable
from headrace.monitoring.outcomes.batch_join import BatchLabelJoin
from headrace.monitoring.outcomes.join_inputs import LabelJoinInputs
from headrace.monitoring.outcomes.label_join import JoinIntervals, OutcomeJoinConfig
from headrace.monitoring.outcomes.streaming_join import StreamingLabelJoin
from headrace.spark.session.session import SparkSessionConfig, start_session
from tests.monitoring.prediction_records import lake_of, new_learning_model, new_model

RECORDS_AT_ONCE = 12


def main(kind: str, broker: str, folder: Path, name: str) -> None:
    spark = start_session(SparkSessionConfig(None, 2, jar_paths("spark"), folder / "scratch"))
    model = new_learning_model(name) if name.startswith("taught") else new_model(name, default=False)
    feed = LabelJoinInputs(model, broker, RECORDS_AT_ONCE)
    pace = JoinIntervals(stream_batch_seconds=0.1, clock_seconds=math.inf, report_seconds=0.2, lake_batch_seconds=0.1)
    place = OutcomeJoinConfig(lake_of(broker, folder), folder, pace)
    join = StreamingLabelJoin(spark, feed, place) if kind == "stream" else BatchLabelJoin(spark, feed, place)
    if kind == "lake":
        landers = [landing(spark, feed, place, number) for number in range(2)]
        threading.Thread(target=lambda: land_for_ever(landers), daemon=True).start()
    join.start()
    said = 0
    while join.is_alive():
        folded = sum(tile.n for tile in join.outcome_writer.tiles.values())
        if join.has_warmed_up and folded != said:  # what was counted before it was killed is nothing it has joined
            sys.stdout.write(f"joined {folded}\n")
            sys.stdout.flush()
            said = folded
        time.sleep(0.05)


def landing(spark: SparkSession, feed: LabelJoinInputs, place: OutcomeJoinConfig, number: int) -> TableIngester:
    table = LakeTable(place.lake.folder, feed.mappings[number])
    table.prepare()
    return TableIngester(new_write_session(spark), feed.broker, table, RECORDS_AT_ONCE)


def land_for_ever(landers: list[TableIngester]) -> None:
    while True:
        for lander in landers:
            lander.ingest()
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
