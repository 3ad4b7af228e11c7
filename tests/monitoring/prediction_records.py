"""Writes predictions and clean labels to a broker, and reads the outcomes of a join."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

import headrace as hr
from headrace.kafka.headers import position_headers
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic
from headrace.kafka.topics import ensure_topics
from headrace.lake.lake import LakeConfig
from headrace.models.inference.prediction import Prediction, encode_prediction
from headrace.monitoring.outcomes.outcomes import LabelEvent, PredictionEvent
from tests.monitoring.histories import Standing, Told

FAR_US = 4_000_000_000 * 1_000_000  # a clock that has passed everything
_numbers = count()


def new_model(name: str, within: str = "5m", arrival: str | None = None, **labels: Any) -> hr.Model:
    """A model with its own stream and labels; the labels may have an arrival time."""
    payments = hr.Stream(
        f"{name}-payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
    )
    own_arrival = "" if arrival in {None, "at"} else f", {arrival} timestamp"
    told = hr.Stream(
        f"{name}-told",
        schema=f"id string, fraud boolean, at timestamp{own_arrival}",
        id="id",
        key="id",
        time="at",
        arrival=arrival,
        late=hr.Late("1m"),
    )

    @hr.features(payments, by="card")
    class Spend:
        payments = hr.count(windows="1h")

    return hr.Model(
        f"{name}-fraud",
        on=payments,
        features=[Spend],
        fields=["amount"],
        file="fraud.onnx",
        labels=hr.Labels(told, value="fraud", within=within, **labels),
    )


def new_learning_model(name: str) -> hr.Model:
    """The same that learns, and does nothing else."""
    judged = new_model(name, default=False)
    of = {"on": judged.stream, "features": judged.views, "fields": judged.fields, "labels": judged.labels}
    return hr.Model(judged.name, **of, learn=online)


def online() -> Any:
    from river import linear_model, preprocessing

    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def prepared(broker: str, name: str | None = None, **labels: Any) -> hr.Model:
    """A model whose topics are there."""
    return with_topics(broker, new_model(name or f"join{next(_numbers)}", **labels))


def with_topics(broker: str, model: hr.Model) -> hr.Model:
    assert model.labels is not None
    ensure_topics(broker, [model.labels.stream], (), [model])
    ensure_progress_topic(broker)
    return model


def lake_of(broker: str, folder: Path) -> LakeConfig:
    return LakeConfig(folder / "lake", broker, ())


def send(broker: str, model: hr.Model, records: Iterable[Told]) -> None:
    """Write records as scorers and gates do; a label keeps its raw offset, replayed or not."""
    assert model.labels is not None
    with Producer(broker) as producer:
        for event, record in records:
            if isinstance(record, LabelEvent):
                at_ms = record.time_us / 1000
                value = json.dumps({"id": event, "fraud": record.value == 1.0, "at": math.floor(at_ms)}).encode()
                headers = position_headers(record.offset, record.arrival_us)
                topic = model.labels.stream.clean
                producer.send(topic, value, key=event, partition=record.partition, headers=headers)
            else:
                producer.send(model.predictions, encode_prediction(_prediction(model, event, record)), key=event)


def renumbered(told: Sequence[Told]) -> list[Told]:
    """The same, with labels' raw offsets as a gate writes them: in order, except for repetitions."""
    places: dict[tuple[int, int], int] = {}
    found: list[Told] = []
    for event, one in told:
        if isinstance(one, LabelEvent):
            of = one.partition, one.offset
            number = places.setdefault(of, sum(partition == one.partition for partition, _ in places))
            found.append((event, one._replace(offset=number)))
        else:
            found.append((event, one))
    return found


def _prediction(model: hr.Model, event: str, scored: PredictionEvent) -> Prediction:
    return Prediction(
        event_id=event,
        score=None if math.isnan(scored.score) else scored.score,
        decision=scored.decision,
        model=model.name,
        version=scored.version,
        role=scored.role,  # type: ignore[arg-type]
        source="stream",
        features=json.loads(scored.features or '{"amount": 1.0}'),
        known={},
        degraded=(),
        event_time_us=scored.time_us,
        arrival_us=scored.arrival_us,
        read_at_us=scored.arrival_us,
        decided_at_us=scored.arrival_us,
    )


def tell_time(broker: str, model: hr.Model, clock_us: int) -> None:
    with Producer(broker) as producer:
        producer.send(model.clock, str(clock_us).encode())


def written_changes(lake: Path, model: hr.Model) -> pa.Table:
    return DeltaTable(lake / f"gold/{model.name}_outcomes").to_pyarrow_table()


def standings(lake: Path, model: hr.Model) -> Counter[Standing]:
    """What all changes in the lake add up to."""
    total: Counter[Standing] = Counter()
    if not DeltaTable.is_deltatable(str(lake / f"gold/{model.name}_outcomes")):
        return total
    for row in written_changes(lake, model).to_pylist():
        of = (
            row["id"],
            row["version"],
            row["role"],
            row["segment"],
            row["minute_us"],
            str(row["score"]),
            row["decision"],
        )
        for side, sign in (("before", -1), ("after", 1)):
            if row[f"state_{side}"] is not None:
                total[*of, row[f"state_{side}"], row[f"label_{side}"]] += sign
    assert min(total.values(), default=0) >= 0
    return +total


def require_identity_at_every_moment(lake: Path, model: hr.Model) -> int:
    """Every version of the table: each prediction and each label without one stands in exactly one way."""
    newest = DeltaTable(lake / f"gold/{model.name}_outcomes").version()
    for version in range(newest + 1):
        rows = DeltaTable(lake / f"gold/{model.name}_outcomes", version=version).to_pyarrow_table().to_pylist()
        predicted: Counter[Standing] = Counter()
        others = 0
        for row in rows:
            moved = (row["state_after"] is not None) - (row["state_before"] is not None)
            if row["version"]:
                predicted[row["id"], row["version"], row["role"]] += moved
            else:
                others += moved
        assert set(predicted.values()) <= {1}, f"version {version}"
        assert others >= 0
    return newest
