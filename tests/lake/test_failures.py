"""One table of the lake that fails is reported and retried, alone, and leaves no files behind."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC, ensure_progress_topic
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.lake import IngestionProgress, MaintenanceProgress
from headrace.lake.failure_state import FailureState
from headrace.lake.formats.registry import FORMATS, FormatName
from headrace.lake.ingestion.ingest_step import _move_files
from headrace.lake.ingestion.lake_writer import IngestContext, IngestWorker
from headrace.lake.ingestion.table_mapping import DAY, bronze_mapping, silver_mapping
from headrace.lake.lake import LakeConfig, prepare_tables, require_compatible_tables
from headrace.lake.lake_table import IncompatibleTableError, LakeTable, TablePosition
from headrace.lake.maintenance import MaintenanceConfig, MaintenanceThread
from tests.lake.batch_gate import SCHEMA, new_stream
from tests.lake.formats.test_reading import add_file, three_days
from tests.waiting import wait_until


@contextmanager
def followed(broker: str) -> Iterator[ProgressTable]:
    board = ProgressTable()
    ensure_progress_topic(broker)
    with TailingConsumer(broker, [PROGRESS_TOPIC], board.apply):
        yield board


def narrower(stream: hr.Stream) -> hr.Stream:
    """The stream as it was declared once: with another type of a column."""
    schema = SCHEMA.replace("n bigint", "n string")
    return hr.Stream(stream.name, schema=schema, id="id", key="card", time="at")


def test_a_table_that_does_not_land_is_reported_and_the_others_go_on(
    broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream, other = new_stream(broker.address), new_stream(broker.address)
    LakeTable(tmp_path, silver_mapping(narrower(stream))).prepare()
    lake = LakeConfig(tmp_path, broker.address, (silver_mapping(stream), bronze_mapping(other)), ingest_interval_s=0.2)
    session: Any = None  # nothing is there to land: no step comes as far as Spark
    rounds = IngestWorker("lake-events", IngestContext(session, lake, Producer(broker.address)), lake.tables)
    failing, landing = silver_mapping(stream).table, bronze_mapping(other).table
    with followed(broker.address) as board:
        rounds.start()
        wait_until(
            lambda: failing in board.reports(IngestionProgress) and landing in board.reports(IngestionProgress),
            limit_s=60,
            what="both to report",
        )
        wait_until(lambda: not board.reports(IngestionProgress)[landing].error, limit_s=60, what="the other to land")
        said = board.reports(IngestionProgress)[failing]
        assert "column 'n' was string, is bigint" in said.error
        assert "Could not ingest" in caplog.text
        assert "Traceback" not in caplog.text, "what a sentence says needs no trace"
        assert abs(time.time() - (said.down_since_us or 0) / 1e6) < 60
        assert board.reports(IngestionProgress)[landing].down_since_us is None
        wait_until(
            lambda: board.reports(IngestionProgress)[failing].at_us > said.at_us, limit_s=60, what="another attempt"
        )
        assert board.reports(IngestionProgress)[failing].down_since_us == said.down_since_us
        shutil.rmtree(tmp_path / failing)
        wait_until(
            lambda: board.reports(IngestionProgress)[failing].down_since_us is None, limit_s=60, what="it to land again"
        )
        assert board.reports(IngestionProgress)[failing].error == ""
        rounds.stop()
        rounds.join(30)


def test_a_failing_table_is_tried_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    state, pauses = FailureState(first_pause_s=1.0, longest_pause_s=60.0), []
    for _ in range(9):
        state.record_failure(OSError("no space left"))
        assert not state.is_due
        pauses.append(state.pause_s)
        now += state.pause_s
        assert state.is_due
    assert all(2**n / 2 <= pause <= min(60, 2**n) for n, pause in enumerate(pauses[:6]))
    assert all(30 <= pause <= 60 for pause in pauses[6:])
    assert (state.error, state.failures) == ("OSError: no space left", 9)
    assert state.record_success()
    assert (state.error, state.down_since_us, state.is_due) == ("", None, True)


def test_a_table_that_cannot_be_read_keeps_no_other_from_being_prepared(broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream = new_stream(broker.address)
    LakeTable(tmp_path, silver_mapping(stream)).prepare()
    for commit in (tmp_path / silver_mapping(stream).table / "_delta_log").glob("*.json"):
        commit.write_text("no commit")
    lake = LakeConfig(tmp_path, broker.address, (silver_mapping(stream), bronze_mapping(stream)))
    (looked_at,), (prepared,) = require_compatible_tables(lake), prepare_tables(lake)
    for problem in (looked_at, prepared):
        assert problem.startswith(f"The table {silver_mapping(stream).table} of the lake is not ingested: ")
        assert "<unknown>" not in problem  # deltalake's errors have a stack in their text
    assert LakeTable(tmp_path, bronze_mapping(stream)).format.read_schema() is not None


def test_a_declaration_that_can_never_land_is_refused_before_anything_starts(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stream = new_stream(broker.address)
    LakeTable(tmp_path, silver_mapping(narrower(stream))).prepare()
    lake = LakeConfig(tmp_path, broker.address, (silver_mapping(stream), bronze_mapping(stream)))
    with pytest.raises(IncompatibleTableError, match="column 'n' was string, is bigint"):
        require_compatible_tables(lake)
    (problem,) = prepare_tables(lake)
    assert "column 'n' was string, is bigint" in problem


def test_maintenance_that_fails_is_reported_until_it_succeeds(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.lake.maintenance.MAINTENANCE_SECONDS", 0.2)
    table = three_days(tmp_path, "delta")
    commit = sorted((table.folder / "_delta_log").glob("*.json"))[-1]
    kept = commit.read_bytes()
    commit.write_text("no commit")
    maintenance = MaintenanceThread(
        [table.folder, tmp_path / "gold" / "missing"], MaintenanceConfig(), Producer(broker.address)
    )
    with followed(broker.address) as board:
        maintenance.start()
        wait_until(lambda: is_down(board, "gold/taps"), limit_s=60, what="the failure to be reported")
        wait_until(
            lambda: "gold/missing" in board.reports(MaintenanceProgress), limit_s=60, what="the other to be looked at"
        )
        assert not board.reports(MaintenanceProgress)["gold/missing"].error
        commit.write_bytes(kept)
        wait_until(lambda: not is_down(board, "gold/taps"), limit_s=60, what="it to be mended")
        maintenance.stop()
        maintenance.join(30)


def is_down(board: ProgressTable, table: str) -> bool:
    return (
        table in board.reports(MaintenanceProgress)
        and board.reports(MaintenanceProgress)[table].down_since_us is not None
    )


def parquet_files(table: LakeTable) -> set[Path]:
    return set(table.folder.glob(f"{DAY}=*/*.parquet"))


@pytest.mark.parametrize("kind", FORMATS)
def test_files_of_a_commit_that_fails_are_removed(tmp_path: Path, kind: FormatName) -> None:
    table = three_days(tmp_path, kind)
    before = parquet_files(table)
    second = LakeTable(tmp_path, table.mapping)
    second.positions([0])
    add_file(table, "2026-01-10", range(150, 160))
    committed = parquet_files(table)
    with pytest.raises(Exception, match=r"Concurrent transaction|has ingested"):
        add_file(second, "2026-01-10", range(160, 170))
    assert parquet_files(table) == committed > before


@pytest.mark.parametrize("kind", FORMATS)
def test_files_of_a_commit_that_was_made_are_kept_whatever_fails_after_it(
    tmp_path: Path, kind: FormatName, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = three_days(tmp_path, kind)
    add = table.format.commit_files

    def add_and_fail(*arguments: Any) -> None:
        add(*arguments)
        raise OSError("the connection was lost")

    monkeypatch.setattr(table.format, "commit_files", add_and_fail)
    with pytest.raises(OSError, match="connection was lost"):
        add_file(table, "2026-01-10", range(150, 160))
    after = LakeTable(tmp_path, table.mapping)
    assert after.positions([0]) == {0: TablePosition(159, 159)}
    assert {file.path for file in after.format.list_files()} == parquet_files(table)


def test_files_are_moved_to_a_table_all_or_none(tmp_path: Path) -> None:
    attempt, folder = tmp_path / "attempt", tmp_path / "table"
    folder.mkdir()
    files = [attempt / f"{DAY}=2026-01-0{day}" / "part.parquet" for day in (1, 2)]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"rows")
    (folder / f"{DAY}=2026-01-02").write_text("no folder")
    with pytest.raises(OSError, match="hr_day=2026-01-02"):
        _move_files(files, folder)
    assert not list(folder.glob("*/*.parquet"))
