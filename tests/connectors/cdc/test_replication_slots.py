"""`headrace changes APP ls|drop`: the replication slots of an app in a real PostgreSQL."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.postgres import PASSWORD, OwnPostgres
from headrace.cli import main

APP = str(Path(__file__).with_name("shop_app.py"))
OURS, LEFT_OVER, ANOTHERS = "headrace_shop_app_customers", "headrace_shop_app_orders", "headrace_bank_customers"


@pytest.fixture
def slots(postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", postgres.url)
    gone = f"'{OURS}', '{LEFT_OVER}', '{ANOTHERS}'"
    postgres.ask(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name IN ({gone})")
    for slot in (OURS, LEFT_OVER, ANOTHERS):
        postgres.ask(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")


def run(*words: str) -> str:
    ran = CliRunner().invoke(main, ["changes", *words])
    assert PASSWORD not in ran.output
    return ran.output


def test_slots_of_an_app_are_listed_and_those_of_others_are_not(slots: None) -> None:
    rows = json.loads(run("ls", APP, "--json"))
    assert [(row["slot"], row["table"], row["read"]) for row in rows] == [
        (OURS, "public.customers", False),
        (LEFT_OVER, None, False),
    ]
    assert "unused" in run("ls", APP)


def test_a_slot_that_is_dropped_is_gone_and_only_one_of_ours_can_be(slots: None, postgres: OwnPostgres) -> None:
    assert "is dropped" in run("drop", APP, LEFT_OVER)
    assert "There is no slot" in run("drop", APP, LEFT_OVER)
    assert "There is no slot" in run("drop", APP, ANOTHERS)
    left = [name for (name,) in postgres.ask("SELECT slot_name FROM pg_replication_slots")]
    assert {OURS, ANOTHERS} <= set(left)
    assert LEFT_OVER not in left
