"""Alerts and `headrace quality` read the values of a model's quality topic."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

from headrace.cli import main
from headrace.declare.models.metrics import MINUTE_US
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.producer.producer import Producer
from headrace.monitoring.quality.quality_tile import QualityKey, encode_key, encode_tile
from headrace.telemetry.values.quality_values import read_quality
from tests.monitoring.quality.histories import model
from tests.monitoring.quality.tile_columns import tile_of

FRAUD = model()


def test_a_metric_of_the_topic_is_that_of_its_pairs(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(4)
    labels = chance.integers(0, 2, 2_000).astype(float)
    scores = np.clip(labels * 0.3 + chance.uniform(0, 0.7, 2_000), 0, 1)
    now_us = 10 * MINUTE_US
    ensure_compacted_topic(broker.address, FRAUD.quality)
    with Producer(broker.address) as producer:
        for minute, part in enumerate(np.array_split(np.arange(2_000), 5)):
            tile = tile_of(FRAUD, scores[part].tolist(), labels[part].tolist())
            key = encode_key(QualityKey("1", "champion", (), minute * MINUTE_US))
            producer.send(FRAUD.quality, encode_tile(tile), key=key)
    quality = read_quality(broker.address, FRAUD)
    reading = quality.read(FRAUD.auc("1h"), now_us)
    assert reading is not None
    assert reading.value == pytest.approx(roc_auc_score(labels, scores), abs=0.01)
    assert "±" in reading.text
    assert quality.read(FRAUD.auc("1h"), now_us + 100 * MINUTE_US) is None  # nothing was predicted then
    assert quality.read_all_metrics(FRAUD, "1h", now_us)[FRAUD.coverage("1h").text] == 1.0

    monkeypatch.setattr("headrace.cli.commands.models.quality.time.time_ns", lambda: now_us * 1000)
    monkeypatch.setattr(
        "headrace.cli.commands.models.quality.load_app", lambda _: type("App", (), {"model": lambda _, __: FRAUD})()
    )
    said = CliRunner().invoke(main, ["quality", "app.py", "fraud", "--broker", broker.address, "--json"])
    assert json.loads(said.stdout)[FRAUD.auc("1d").text] == reading.value
