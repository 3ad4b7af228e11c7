"""A season of flights: compares a model that is trained once with one that is retrained each month.

    data known at the end of a month ─▶ retrained ─▶ better than the champion? ─▶ promoted, or kept as a challenger
                                                      next month ─▶ the AUC of the first version and of the champion

python examples/flights/season.py
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
import prepare
import pyarrow as pa
from late import late
from proof import session
from pyspark.sql import DataFrame, SparkSession

from headrace.declare.models.labels import Labels
from headrace.declare.models.retraining import Retrain
from headrace.lake.ingestion.table_mapping import ARRIVAL, OFFSET, PARTITION
from headrace.lake.training.labelled_events import ArrivalWindow, labelled_training_set
from headrace.models.training.estimator_fit import compute_metrics, score_frame
from headrace.models.training.examples import build_examples
from headrace.models.training.training import TrainingConfig
from headrace.models.versions.version_loader import load_version
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.retraining.retraining import retrain_model

Recordings = dict[str, DataFrame]


class Month(NamedTuple):
    """The AUC of the first version and of the champion in a month, and the decision before it."""

    name: str
    first: float | None
    champion: float | None
    version: str
    decided: str


@click.command()
@click.option("--from", "first", default=4, show_default=True, help="The first month that is predicted.")
@click.option("--to", "last", default=8, show_default=True, help="The last one.")
def main(first: int, last: int) -> None:
    """Train at the end of each month, predict the next."""
    with tempfile.TemporaryDirectory() as name:
        spark = session(Path(name))
        recordings, versions = recorded(spark), VersionStore(Path(name), late.name)
        click.echo("month      first   champion   decided before it")
        for number in range(first, last + 1):
            month = season(spark, recordings, versions, number)
            click.echo(f"{month.name}   {month.first:.4f}  {month.champion:.4f}   {month.decided}")
        spark.stop()


def season(spark: SparkSession, recordings: Recordings, versions: VersionStore, month: int) -> Month:
    """Train on the data known at the start of a month, then evaluate the first version and the champion in it."""
    labels, rules, began = declared(), late.retrain or Retrain(), beginning(month)
    known = labelled_training_set(spark, late, labels, recordings, ArrivalWindow(us(began), rules.over_us))
    done = retrain_model(late, known, rules, TrainingConfig(ARRIVAL), versions, f"{began:%B} begins")
    ended = beginning(month + 1)
    # Labels that arrive after the end of the month are not included.
    table = labelled_training_set(spark, late, labels, recordings, ArrivalWindow(us(ended), us(ended) - us(began)))
    champion = versions.load_roles().champion or "1"
    return Month(
        f"{began:%Y-%m}",
        quality(table, versions, "1"),
        quality(table, versions, champion),
        champion,
        f"version {done.card.version} {'takes over' if done.decision.promoted else 'challenges'}: "
        f"{done.decision.reason}",
    )


def quality(table: pa.Table, versions: VersionStore, version: str) -> float | None:
    """The AUC of a version on labelled flights."""
    frame = build_examples(late, table, ARRIVAL).frame
    scores = score_frame(load_version(late, versions.state, version).scorer, frame)
    return compute_metrics("classification", frame[late.label].to_numpy(), scores)["auc"]


def declared() -> Labels:
    """The labels of the model: whether a flight was late."""
    if late.labels is None:
        raise click.ClickException("The model has no labels.")
    return late.labels


def beginning(month: int) -> datetime:
    return datetime(2013 + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=UTC)


def us(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def recorded(spark: SparkSession) -> Recordings:
    """The clean events of both recordings, with the columns of the lake."""
    flights = prepare.read_flights()
    streams = {"departures": late.stream, "arrivals": declared().stream}
    whole = {"departures": prepare.departures(flights), "arrivals": prepare.arrivals(flights)}
    recordings = {}
    for name, events in whole.items():
        delay_us = prepare.us(events["reported_at"]) - prepare.us(events["at"])
        clean = events.filter(pa.array(delay_us <= streams[name].late.until_us))
        placed = clean.append_column(ARRIVAL, clean["reported_at"]).append_column(
            PARTITION, pa.array([0] * len(clean), pa.int32())
        )
        recordings[name] = spark.createDataFrame(
            placed.append_column(OFFSET, pa.array(range(len(clean))))
        ).localCheckpoint()
    return recordings


if __name__ == "__main__":
    main()
