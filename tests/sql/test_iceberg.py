"""SQL over an Iceberg lake returns what it returns over a Delta lake."""

from pathlib import Path

import pytest

import headrace as hr
from headrace.lake.consistency.batch_check import save_findings
from headrace.lake.consistency.value_comparison import CheckFindings, ComparisonCounts
from headrace.lake.formats.registry import FORMATS, create_lake
from headrace.lake.maintenance import MaintenanceConfig, maintain_table
from headrace.sql.engine import SqlEngine
from headrace.sql.errors import SqlRefused
from tests.sql.lakes import land, payment, payments
from tests.sql.test_engine import EVENTS, LIVE, ask, rows

QUESTIONS = (
    "select * from payments order by id, hr_day",
    "select card, count(*), sum(amount) from silver.payments group by 1 order by 1",
    "select hr_day, count(*) from payments where hr_day >= '2026-01-03' group by 1 order by 1",
    "describe payments",
)


@pytest.fixture
def engines(tmp_path: Path) -> list[SqlEngine]:
    """An engine over a lake in each format, with the same events."""
    for kind in FORMATS:
        create_lake(tmp_path / kind, kind)
        land(tmp_path / kind, payments, EVENTS[:120])
        land(tmp_path / kind, payments, EVENTS[120:])
    return [SqlEngine(tmp_path / kind, LIVE) for kind in FORMATS]


def test_answers_are_the_same_of_both_formats(engines: list[SqlEngine]) -> None:
    for question in QUESTIONS:
        in_delta, in_iceberg = (ask(engine, question) for engine in engines)
        assert in_delta["rows"]
        assert (in_delta["columns"], in_delta["rows"]) == (in_iceberg["columns"], in_iceberg["rows"])


def test_what_lands_in_iceberg_is_there_at_the_next_question(tmp_path: Path) -> None:
    create_lake(tmp_path, "iceberg")
    engine = SqlEngine(tmp_path, {})
    assert rows(engine, "show tables") == []
    land(tmp_path, payments, [])
    assert rows(engine, "select count(*), sum(amount) from payments") == [[0, None]]
    for landed in (10, 20, 30):
        land(tmp_path, payments, [payment(number) for number in range(landed - 10, landed)])
        assert rows(engine, "select count(*), count(distinct id) from payments") == [[landed, landed]]
    maintain_table(tmp_path / "silver" / "payments", MaintenanceConfig(), payment(0)["at"].date().replace(year=2030))
    plan = rows(engine, "explain select count(id) from payments where hr_day = '2026-01-03'")[0][1]
    assert "1/4" in plan.replace(" ", "").replace("│", "")  # of four files, one a day, the one of that day
    with pytest.raises(SqlRefused):
        rows(engine, "select * from gold.payments")


def test_what_a_check_has_found_is_kept_in_the_format_of_the_lake(engines: list[SqlEngine], tmp_path: Path) -> None:
    view = hr.features(payments, by="card")(type("Spend", (), {"number": hr.count(windows="1h")}))
    found = CheckFindings(by_arrival={"number_1h": ComparisonCounts()})
    for engine, kind in zip(engines, FORMATS, strict=True):
        for _ in range(2):
            save_findings(found, view, str(tmp_path / kind))
        assert rows(engine, "select feature, count(*) from gold.Spend_checks group by 1") == [["number_1h", 2]]
