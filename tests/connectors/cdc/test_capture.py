"""A table of a real PostgreSQL, captured by a real Kafka Connect, and what fails before anything starts."""

from pathlib import Path

import psycopg
import pytest

from bench.postgres import PASSWORD, OwnPostgres
from headrace.connectors.cdc.errors import CaptureSetupError, DatabaseUnavailable
from headrace.connectors.cdc.source_database import slot_name, source_database
from headrace.embedded_servers.broker import EmbeddedBroker
from tests.connectors.cdc.captured_table import TABLE, Capturing, changes_of, made_table, rows_left
from tests.waiting import wait_until

CROWD = 100_000


def test_a_snapshot_and_then_each_committed_change_are_told_also_over_a_kill(
    postgres: OwnPostgres, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    made_table(postgres, "buyers")
    postgres.ask("INSERT INTO buyers SELECT n, 'FR', n, now() FROM generate_series(1, 3) n")
    changes = changes_of(postgres, "buyers")
    with Capturing(changes, broker.address, tmp_path) as first:
        assert [(one["op"], one["after"]["id"]) for one in first.wait_for(3)] == [("r", 1), ("r", 2), ("r", 3)]
        with psycopg.connect(postgres.url) as connection:
            connection.execute("UPDATE buyers SET country = 'DE' WHERE id = 1")
            connection.commit()
            connection.execute("DELETE FROM buyers")
            connection.rollback()
        postgres.ask("DELETE FROM buyers WHERE id = 2")
        updated, deleted = first.wait_for(5)[3:]
        assert (updated["op"], updated["before"]["country"], updated["after"]["country"]) == ("u", "FR", "DE")
        assert (deleted["op"], deleted["before"]["id"], deleted["after"]) == ("d", 2, None)
        first.kill()
    postgres.ask("INSERT INTO buyers VALUES (4, 'IT', 4, now())")
    with Capturing(changes, broker.address, tmp_path) as second:
        wanted = {1: "DE", 3: "FR", 4: "IT"}  # some changes may be repeated
        wait_until(lambda: _countries(second) == wanted, 60, "the rows to be the database's")
    _assert_secret(tmp_path)
    (slot,) = source_database(changes).list_slots(first.app.name)
    assert (slot.name, slot.is_active) == (slot_name(first.app.name, changes), False)


def _assert_secret(state: Path) -> None:
    """The database's password is in no file of ours, and only we may read Connect's own."""
    files = [file for file in state.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if PASSWORD.encode() in file.read_bytes()]
    assert (state / "connect").stat().st_mode & 0o077 == 0


@pytest.mark.faults
def test_what_a_gap_took_is_taken_back_before_a_new_snapshot(
    postgres: OwnPostgres, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    made_table(postgres, "patients")
    postgres.ask("INSERT INTO patients SELECT n, 'FR', n, now() FROM generate_series(1, 3) n")
    changes = changes_of(postgres, "patients")
    with Capturing(changes, broker.address, tmp_path) as first:
        first.wait_for(3)
    source_database(changes).drop_slot(slot_name(first.app.name, changes))
    postgres.ask("DELETE FROM patients WHERE id = 1")
    with Capturing(changes, broker.address, tmp_path) as second:
        told = second.wait_for(8)
    assert [one["op"] for one in told] == ["r"] * 3 + ["d"] * 3 + ["r"] * 2
    assert sorted(rows_left(told)) == [2, 3]


@pytest.mark.faults
def test_a_snapshot_that_is_cut_short_leaves_no_row_that_was_deleted_meanwhile(
    postgres: OwnPostgres, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    made_table(postgres, "crowd")
    postgres.ask(f"INSERT INTO crowd SELECT n, 'FR', n, now() FROM generate_series(1, {CROWD}) n")
    changes = changes_of(postgres, "crowd")
    with Capturing(changes, broker.address, tmp_path) as first:
        wait_until(lambda: first.count() > 0, 60, "the snapshot to begin")
        first.kill()
    cut_short = first.count()
    assert 0 < cut_short < CROWD
    postgres.ask("DELETE FROM crowd WHERE id % 2 = 0")
    with Capturing(changes, broker.address, tmp_path) as second:
        wait_until(
            lambda: second.count() >= 2 * cut_short + CROWD // 2, 60, "what was told to be taken back, and the rest"
        )
        wait_until(lambda: len(_countries(second)) == CROWD // 2, 60, "every row that is left")
        assert all(key % 2 for key in _countries(second))


@pytest.mark.faults
def test_a_truncated_table_has_the_rows_that_came_after(
    postgres: OwnPostgres, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    made_table(postgres, "visits")
    postgres.ask("INSERT INTO visits SELECT n, 'FR', n, now() FROM generate_series(1, 3) n")
    with Capturing(changes_of(postgres, "visits"), broker.address, tmp_path) as capturing:
        capturing.wait_for(3)
        postgres.ask("TRUNCATE visits; INSERT INTO visits VALUES (1, 'IT', 1, now()), (4, 'IT', 4, now())")
        wait_until(lambda: _countries(capturing) == {1: "IT", 4: "IT"}, 30, "the rows to be those that came after")


def _countries(capturing: Capturing) -> dict[int, str]:
    """The country of each remaining row, by the changes' positions in the database's log."""
    newest = sorted((one for one in capturing.told() if one["op"] != "t"), key=lambda one: one["source"]["lsn"])
    return {key: row["country"] for key, row in rows_left(newest).items()}


def test_a_table_that_does_not_tell_what_was_before_is_refused(postgres: OwnPostgres) -> None:
    postgres.ask(TABLE.format("forgetful"))
    with pytest.raises(CaptureSetupError, match=r"ALTER TABLE public\.forgetful REPLICA IDENTITY FULL"):
        source_database(changes_of(postgres, "forgetful")).require_capturable()


def test_a_table_or_a_column_that_is_not_there_is_refused(postgres: OwnPostgres) -> None:
    with pytest.raises(CaptureSetupError, match=r"has no table public\.nowhere"):
        source_database(changes_of(postgres, "nowhere")).require_capturable()
    postgres.ask("CREATE TABLE narrow (id bigint PRIMARY KEY)")
    with pytest.raises(CaptureSetupError, match="has no column 'country'"):
        source_database(changes_of(postgres, "narrow")).require_capturable()


def test_a_database_that_is_away_says_so_without_its_password(
    postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = changes_of(postgres, "unreached")
    monkeypatch.setenv("CAPTURED_DB", f"postgres://someone:{PASSWORD}@127.0.0.1:1/shop")
    with pytest.raises(DatabaseUnavailable) as away:
        source_database(changes).require_capturable()
    assert "someone@127.0.0.1:1/shop" in str(away.value)
    assert PASSWORD not in str(away.value)
