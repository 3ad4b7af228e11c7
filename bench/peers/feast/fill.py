"""Run by Feast's own Python: declares a view of ten features, and writes vectors of cards to its online store.

python fill.py FOLDER VECTORS.json     FOLDER has a feature_store.yaml
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.types import Float64, Int64
from feast.value_type import ValueType

COUNTS = ("payments_10m", "payments_1h", "payments_7d", "merchants_1h")
AMOUNTS = ("spend_10m", "spend_1h", "spend_7d", "largest_10m", "largest_1h", "largest_7d")


def fill(folder: Path, vectors: Path) -> None:
    """Declare, and write."""
    card = Entity(name="card", join_keys=["card"], value_type=ValueType.STRING)
    view = FeatureView(
        name="card_spend",
        entities=[card],
        ttl=timedelta(days=7),
        schema=[Field(name=name, dtype=Int64 if name in COUNTS else Float64) for name in (*COUNTS, *AMOUNTS)],
        source=FileSource(path=str(folder / "offline.parquet"), timestamp_field="event_timestamp"),
    )
    frame = pd.read_json(vectors).astype(dict.fromkeys(COUNTS, "int64") | dict.fromkeys(AMOUNTS, "float64"))
    frame["event_timestamp"] = datetime.now(UTC)
    frame.iloc[:1].to_parquet(folder / "offline.parquet")
    store = FeatureStore(str(folder))
    store.apply([card, view])
    store.write_to_online_store(view.name, frame)


if __name__ == "__main__":
    fill(Path(sys.argv[1]), Path(sys.argv[2]))
