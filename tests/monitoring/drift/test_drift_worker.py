"""Served vectors count once despite restarts and kills; drift is reported and ranked, and raises alerts."""

import json
import random
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.cli import main
from headrace.declare.app import build_app
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.models import DriftProgress
from headrace.lake.formats.registry import FormatName
from headrace.lake.formats.registry import create_lake as begin_lake
from headrace.lake.lake import LakeConfig
from headrace.monitoring.drift.drift_worker import DriftEvaluationConfig, DriftWorker
from headrace.monitoring.drift.drift_writer import DriftWriter
from headrace.telemetry.alerts.default_alerts import app_alerts
from tests.lake.test_kills import child, wait_at_random
from tests.monitoring.served_vectors import MINUTE_US, Served, brute_force, counted, drawn, prepared, send, vectors
from tests.telemetry.alert_simulation import firing_after, metrics_text
from tests.waiting import patiently, wait_until


def now_us() -> int:
    return time.time_ns() // 1000


def place_of(broker: EmbeddedBroker, folder: Path, **settings: float) -> DriftEvaluationConfig:
    return DriftEvaluationConfig(LakeConfig(folder / "lake", broker.address, ()), folder, **settings)  # type: ignore[arg-type]


def book_of(broker: EmbeddedBroker, folder: Path, model: hr.Model, most: int) -> DriftWriter:
    book = DriftWriter(folder / "lake", model, folder, broker.address, most)
    book.open(now_us())
    return book


def count_all(book: DriftWriter) -> None:
    while book.process_records(now_us()):
        pass


def hostile(seed: int, rows: int) -> list[Served | bytes]:
    """Vectors of the last hours: repeated, of a challenger, of unknown versions, with nulls and texts never seen."""
    rng, dice = np.random.default_rng(seed), random.Random(seed)
    times = (now_us() - rng.integers(0, 180 * MINUTE_US, rows)).tolist()
    sent: list[Served | bytes] = []
    for one in vectors(drawn(seed, rows), times):
        odd = dice.random()
        features = one.features | ({"amount": None} if odd < 0.1 else {"country": "XX"} if odd < 0.2 else {})
        changed = one._replace(features=features, score=None if odd > 0.95 else one.score)
        sent.append(changed)
        if odd > 0.7:
            sent.append(changed._replace(version="2", role="challenger"))
        if odd > 0.8:
            sent.insert(dice.randrange(len(sent)), dice.choice(sent))
        if odd > 0.97:
            sent += [
                b"no prediction",
                b"[]",
                b'{"version": 1}',
                changed._replace(version="99"),
                one._replace(features={}),
            ]
    return sent


@pytest.mark.parametrize(("most", "kind"), [(9, "delta"), (1_000, "delta"), (30, "iceberg")])
def test_tiles_are_brute_force_over_all_predictions_through_restarts(
    broker: EmbeddedBroker, tmp_path: Path, most: int, kind: FormatName
) -> None:
    begin_lake(tmp_path / "lake", kind)
    model, told = prepared(broker.address, tmp_path), hostile(most, 60)
    for begin, end in pairwise([0, 30, 31, len(told)]):
        send(broker.address, model, told[begin:end])
        count_all(book_of(broker, tmp_path, model, most))
    book = book_of(broker, tmp_path, model, most)
    assert book.process_records(now_us()) == 0
    assert counted(tmp_path / "lake", model, tmp_path) == brute_force(broker.address, model, tmp_path)


def endure(broker: EmbeddedBroker, folder: Path, kills: int) -> None:
    name, dice, output = f"counted{kills}", random.Random(kills), folder / "child.out"
    model, told = prepared(broker.address, folder, name), hostile(kills, 60 * (kills + 1))
    cuts = [len(told) * part // (kills + 1) for part in range(kills + 2)]
    for begin, end in list(pairwise(cuts))[:-1]:
        send(broker.address, model, told[begin:end])
        with child("tests.monitoring.child_counts", broker.address, str(folder), name, output=output) as running:
            wait_at_random(dice, running, output.read_text, "counted", 0.5)
    send(broker.address, model, told[cuts[-2] :])
    count_all(book_of(broker, folder, model, 1_000))
    assert counted(folder / "lake", model, folder) == brute_force(broker.address, model, folder)


def test_a_kill_while_counting_loses_nothing_and_counts_nothing_twice(broker: EmbeddedBroker, tmp_path: Path) -> None:
    endure(broker, tmp_path, kills=1)


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_ten_kills_while_counting_lose_nothing_and_count_nothing_twice(broker: EmbeddedBroker, tmp_path: Path) -> None:
    endure(broker, tmp_path, kills=10)


def test_two_that_count_at_once_count_each_vector_once(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """As two processes of the lake would: a commit that comes second fails, and begins again with what is there."""
    model = prepared(broker.address, tmp_path)
    send(broker.address, model, hostile(3, 30))
    jobs = [DriftWorker(model, place_of(broker, tmp_path, interval_seconds=0.05, records_per_step=5)) for _ in range(2)]
    jobs[0].drift_writer.open(now_us())
    for job in jobs:
        job.start()
    try:
        expected = brute_force(broker.address, model, tmp_path)
        wait_until(lambda: counted(tmp_path / "lake", model, tmp_path) == expected, 60, "all to be counted")
        send(broker.address, model, hostile(4, 10))
        expected = brute_force(broker.address, model, tmp_path)
        wait_until(lambda: counted(tmp_path / "lake", model, tmp_path) == expected, 60, "the rest to be counted")
    finally:
        for job in jobs:
            job.stop()
            job.join(patiently(10))


def compared(broker: EmbeddedBroker, folder: Path, shift: float) -> tuple[hr.Model, DriftWorker, DriftProgress]:
    """A model with 3,000 vectors served within the hour, and the drift reported for them."""
    model = prepared(broker.address, folder)
    times = np.linspace(now_us() - 50 * MINUTE_US, now_us() - 1_000_000, 3_000).astype(int).tolist()
    send(broker.address, model, vectors(drawn(5, 3_000, shift), times))
    comparison = DriftWorker(model, place_of(broker, folder))
    comparison.drift_writer.open(now_us())
    count_all(comparison.drift_writer)
    return model, comparison, comparison.create_progress(now_us())


def board_of(told: DriftProgress) -> ProgressTable:
    board = ProgressTable()
    board.put(told)
    return board


def firing(model: hr.Model, told: DriftProgress, minutes: int) -> set[str]:
    module = ModuleType("shop")
    vars(module).update(model=model)
    return firing_after(app_alerts(build_app(module)), board_of(told), minutes)


def test_a_drift_is_told_ranked_and_alarmed(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _, told = compared(broker, tmp_path, shift=1.0)
    assert told.multiple is not None
    assert told.multiple > 1
    assert (told.rows, told.version, told.ranked[0]["column"]) == (3_000, "1", "amount")
    assert told.ranked[0]["segment"] == {"country": "DE"}
    assert told.columns["amount"] == told.multiple == max(told.columns.values())
    assert firing(model, told, 14) == set()
    assert firing(model, told, 16) == {f"{model.name}: drift"}
    text = metrics_text(board_of(told))
    assert f'headrace_drift_statistic{{column="amount",model="{model.name}",test="psi"}}' in text

    again = DriftWorker(model, place_of(broker, tmp_path))  # started again, it knows what it knew
    again.drift_writer.open(now_us())
    assert again.drift_writer.process_records(now_us()) == 0
    assert replace(again.create_progress(told.at_us), fates=told.fates) == told

    monkeypatch.setattr(
        "headrace.cli.commands.models.drift.load_app", lambda _: type("App", (), {"model": lambda _, __: model})()
    )
    asked = ["drift", "app.py", model.name, "--state", str(tmp_path)]
    found = json.loads(CliRunner().invoke(main, [*asked, "--json"]).stdout)
    assert found["ranked"] == json.loads(json.dumps(told.ranked))
    words = CliRunner().invoke(main, [*asked, "--over", "2h"]).stdout
    assert "amount" in words
    assert f"headrace train app.py {model.name}" in words


def test_without_drift_nothing_is_told_or_alarmed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    model, comparison, told = compared(broker, tmp_path, shift=0.0)
    assert told.multiple is not None
    assert told.multiple < 1
    assert told.ranked == []
    assert firing(model, told, 60) == set()
    comparison.drift_writer.forget_expired(now_us() + 120 * MINUTE_US)  # an hour later nothing of it is in the window
    assert comparison.create_progress(now_us() + 120 * MINUTE_US).multiple is None


def test_where_a_stream_tells_its_own_arrivals_the_window_ends_with_the_newest(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model = prepared(broker.address, tmp_path, arrival="told_at")
    day_us = 1_357_000_000_000_000  # of 2013
    times = [day_us + second * 30_000_000 for second in range(600)]  # five hours
    send(broker.address, model, vectors(drawn(5, 600), times))
    for _ in range(2):
        job = DriftWorker(model, place_of(broker, tmp_path))
        job.drift_writer.open(now_us())
        count_all(job.drift_writer)
        inside = sum(times[-1] // MINUTE_US - 61 < time_us // MINUTE_US for time_us in times)
        assert job.create_progress(now_us()).rows == inside
        assert len(job.drift_writer.windows["1"]) <= 61


def test_the_running_job_tells_its_progress(broker: EmbeddedBroker, tmp_path: Path) -> None:
    model = prepared(broker.address, tmp_path)
    send(broker.address, model, vectors(drawn(5, 300), [now_us()] * 300))
    job = DriftWorker(model, place_of(broker, tmp_path, interval_seconds=0.1))
    job.start()
    try:
        board, tail = ProgressTable(), LastRecordsReader(broker.address, "headrace.progress", 10**6)

        def rows() -> int:
            board.apply(tail.read_new_records())
            return board.reports(DriftProgress)[model.name].rows if model.name in board.reports(DriftProgress) else 0

        wait_until(lambda: rows() == 300, 30, "the progress of drift")
    finally:
        job.stop()
        job.join(patiently(10))
    assert not job.is_alive()
