"""Writes served vectors to a broker as scorers do, and counts them by brute force."""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import headrace as hr
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import ensure_progress_topic
from headrace.kafka.topics import ensure_topics
from headrace.models.inference.prediction import Prediction, encode_prediction
from headrace.models.versions.reference_distribution import describe_references
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout, create_layout
from headrace.monitoring.drift.drift_tile import decode_key, decode_tile
from tests.lake.read_back import read_back
from tests.models.cards import card_for

MINUTE_US = 60_000_000
COUNTRIES = np.array(["FR", "DE", "US"], object)
_numbers = count()


def new_model(name: str, **settings: Any) -> hr.Model:
    """A model of three inputs on its own stream, without labels; segmented by country."""
    payments = hr.Stream(
        f"{name}-payments",
        schema="id string, card string, country string, amount double, at timestamp, told_at timestamp",
        id="id",
        key="card",
        time="at",
        **settings,
    )

    @hr.features(payments, by="card")
    class Spend:
        payments = hr.count(windows="1h")

    return hr.Model(
        f"{name}-fraud",
        on=payments,
        features=[Spend],
        fields=["amount", "country"],
        train=lambda frame: frame,
        segments=["country"],
    )


def drawn(seed: int, rows: int, shift: float = 0.0) -> dict[str, np.ndarray]:
    """Inputs and scores; amounts of DE are shifted by so many deviations."""
    rng = np.random.default_rng(seed)
    country = rng.choice(COUNTRIES, rows, p=[0.5, 0.3, 0.2])
    amount = np.exp(rng.normal(size=rows) + shift * (country == "DE"))
    return {
        "payments_1h": rng.poisson(3, rows).astype(np.float64),
        "amount": amount,
        "country": country,
        "score": rng.random(rows),
    }


def prepared(broker: str, state: Path, name: str | None = None, **settings: Any) -> hr.Model:
    """A model whose topics are there, with a champion, version 1, and a challenger that was trained alike."""
    model = new_model(name or f"served{next(_numbers)}", **settings)
    ensure_topics(broker, [model.stream], (), [model])
    ensure_progress_topic(broker)
    train(model, state)
    return model


def train(model: hr.Model, state: Path, versions: int = 2) -> None:
    kept, trained = VersionStore(state, model.name), drawn(0, 4_000)
    for number in range(versions):
        features = [{"name": name, "type": "double"} for name in ("payments_1h", "amount", "country")]
        reference = describe_references(trained, {"country": trained["country"]})
        kept.add(b"", replace(card_for(bytes([number]), model.name), features=features, reference=reference))
    kept.promote("1")


class Served(NamedTuple):
    """One vector as it is sent."""

    id: str
    time_us: int
    features: dict[str, Any]
    score: float | None
    version: str = "1"
    role: str = "champion"


def vectors(columns: dict[str, np.ndarray], times_us: Sequence[int], name: str = "p") -> list[Served]:
    rows = zip(*(columns[one].tolist() for one in ("payments_1h", "amount", "country", "score")), strict=True)
    return [
        Served(f"{name}{number}", time_us, {"payments_1h": payments, "amount": amount, "country": country}, score)
        for number, (time_us, (payments, amount, country, score)) in enumerate(zip(times_us, rows, strict=True))
    ]


def send(broker: str, model: hr.Model, served: Iterable[Served | bytes]) -> None:
    with Producer(broker) as producer:
        for one in served:
            value = one if isinstance(one, bytes) else encode_prediction(_prediction(model, one))
            producer.send(model.predictions, value, key="broken" if isinstance(one, bytes) else one.id)


def _prediction(model: hr.Model, one: Served) -> Prediction:
    return Prediction(
        event_id=one.id,
        score=one.score,
        decision=None,
        model=model.name,
        version=one.version,
        role=one.role,  # type: ignore[arg-type]
        source="stream",
        features=one.features,
        known={},
        degraded=(),
        event_time_us=one.time_us,
        arrival_us=one.time_us,
        read_at_us=one.time_us,
        decided_at_us=one.time_us,
    )


Counted = dict[tuple[str, tuple, int], Counter[int]]


def brute_force(broker: str, model: hr.Model, state: Path) -> Counted:
    """Every prediction of the log, row by row: the first of each event, version and role."""
    seen: set[tuple[bytes | None, str, str]] = set()
    found: Counted = {}
    layouts = {name: create_layout(VersionStore(state, model.name).load_card(name)) for name in ("1", "2")}
    for record in LastRecordsReader(broker, model.predictions, 10**6).read_new_records():
        told = _read(record)
        if told is None or told.version not in layouts or (record.key, told.version, told.role) in seen:
            continue
        seen.add((record.key, told.version, told.role))
        layout, country = layouts[told.version], told.features.get("country")
        for segment in layout.segments:
            if segment in {ALL_ROWS, (("country", country),)}:
                tile = found.setdefault((told.version, segment, told.time_us // MINUTE_US * MINUTE_US), Counter())
                tile.update(_places(layout, {**told.features, "score": told.score}))
    return found


def _read(record: ConsumerRecord) -> Served | None:
    try:
        said = json.loads(record.value or b"")
        return Served("", said["event_time_us"], said["features"], said["score"], said["version"], said["role"])
    except (ValueError, KeyError, TypeError):
        return None


def _places(layout: DriftLayout, values: dict[str, Any]) -> list[int]:
    return [column.start + _bin(column, values.get(column.name)) for column in layout.columns]


def _bin(column: Any, value: Any) -> int:
    if value is None or value == "":
        return int(column.bin_count)
    if column.is_numeric:
        return bisect_left(column.reference.cuts, float(np.float32(value)))
    listed = column.reference.values
    return listed.index(value) if value in listed else len(listed)


def counted(lake: Path, model: hr.Model, state: Path) -> Counted:
    """What the parts in the table add up to."""
    found: Counted = {}
    layouts = {name: create_layout(VersionStore(state, model.name).load_card(name)) for name in ("1", "2")}
    for row in read_back(lake / f"gold/{model.name}_drift").to_pylist():
        key = decode_key(row["key"].encode())
        tile = decode_tile(layouts[key.version], row["value"].encode())
        assert (tile.n, key.minute_us) == (row["n"], row["minute_us"])
        counts = found.setdefault((key.version, key.segment, key.minute_us), Counter())
        counts.update({int(at): int(tile.counts[at]) for at in np.flatnonzero(tile.counts)})
    return found
