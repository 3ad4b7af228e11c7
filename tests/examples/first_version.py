"""Trains a first version of the flights' model without Spark, and writes it and the demo's state to FOLDER."""

import sys
from datetime import datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flights"))

import prepare
from landed import between
from late import late
from seen import Decision, Season, months

from headrace.models.training.training import TrainingConfig, train_model
from headrace.models.versions.version_store import VersionStore


def main(folder: Path, first: datetime) -> None:
    """Fit on the flights of a week before; whatever only a running system knows is a departure's delay to it."""
    flights = prepare.read_flights()
    departures = between(
        prepare.departures(flights), "reported_at", first - timedelta(days=8), first - timedelta(days=1)
    )
    landed = prepare.arrivals(flights).select(["flight_id", "late"])
    table = departures.join(landed, "flight_id", join_type="inner")
    for column in late.vector:
        if column.name not in table.column_names:
            table = table.append_column(column.name, table["delay"])
    card = train_model(late, table, TrainingConfig("reported_at"), VersionStore(folder / "state", late.name))
    season = Season(months(first, 1, 1), decisions=[Decision(first, card.version, True, "it was there")])
    season.keep(folder / "season.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]))
