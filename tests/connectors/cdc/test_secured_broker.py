"""A table captured on a secured broker: its changes arrive, and no process shows a password."""

import logging
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.postgres import PASSWORD, OwnPostgres
from headrace.cli import main
from headrace.kafka.client.security import SECURITY_FILE_VARIABLE
from tests.connectors.cdc.captured_table import ROW, Capturing, changes_of, made_table, rows_left
from tests.kafka.secured_broker import ADMIN_PASSWORD, CANARY, Guarded
from tests.running import JAVA, descendants

SECRETS = (CANARY.split()[0], ADMIN_PASSWORD, PASSWORD)
APP = f"""
import headrace as hr

members = hr.Changes("members", from_="env:CAPTURED_DB", table="public.members", key="id", schema="{ROW}")
"""


@pytest.mark.faults
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_changes_arrive_and_no_password_is_in_a_file_a_log_a_plan_or_a_command_line(
    guarded: Guarded,
    postgres: OwnPostgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mechanism: str,
) -> None:
    who = guarded.by_token() if mechanism == "OAUTHBEARER" else guarded.by_password(mechanism)
    monkeypatch.setenv(SECURITY_FILE_VARIABLE, str(who))
    caplog.set_level(logging.DEBUG, "headrace")
    table = f"members_{mechanism.partition('-')[0].lower()}"
    made_table(postgres, table)
    postgres.ask(f"INSERT INTO {table} SELECT n, 'FR', n, now() FROM generate_series(1, 3) n")
    heard: dict[str, str] = {}
    with Capturing(changes_of(postgres, table), guarded.address, tmp_path) as capturing:
        capturing.wait_for(3)
        postgres.ask(f"UPDATE {table} SET country = 'DE' WHERE id = 1")
        postgres.ask(f"DELETE FROM {table} WHERE id = 2")
        told = capturing.wait_for(5)
        heard |= {f"process {pid}": Path(f"/proc/{pid}/cmdline").read_text() for pid in descendants(os.getpid())}
    assert {key: row["country"] for key, row in rows_left(told).items()} == {1: "DE", 3: "FR"}
    assert any(JAVA["debezium"] in command for command in heard.values())
    (tmp_path / "app.py").write_text(APP)
    planned = CliRunner().invoke(main, ["plan", str(tmp_path / "app.py"), "--state", str(tmp_path)])
    assert planned.exit_code == 0, planned.output
    heard |= {str(file): file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file()}
    heard |= {"the plan": planned.output, "the log": caplog.text}
    assert any(f"sasl.mechanism={mechanism}" in text for text in heard.values())
    assert not {where for where, text in heard.items() for secret in SECRETS if secret in text}
