"""A saved query that cannot run is rejected before anything starts."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.cli import main
from headrace.declare.app import App, build_app
from headrace.declare.features.view import require_view
from headrace.runtime.parts.lake_part import lake_tables
from headrace.sql.saved_query_check import find_query_problems, require_valid_queries
from tests.sql.lakes import payments

MODULE = """
import headrace as hr
schema = "id string, card string, amount double, at timestamp"
payments = hr.Stream("payments", schema=schema, id="id", key="card", time="at")
@hr.features(payments, by="card")
class CardSpend:
    spend = hr.sum("amount", windows="1h")
"""


@hr.features(payments, by="card")
class CardSpend:
    spend = hr.sum("amount", windows="1h")
    mean = hr.mean("amount", windows="1h")
    ratio = spend["1h"] / mean["1h"]


def app(**queries: str) -> App:
    declared = tuple(hr.Query(name, sql) for name, sql in queries.items())
    return App("shop", (payments,), (require_view(CardSpend),), queries=declared)


def test_queries_over_every_kind_of_table_are_accepted() -> None:
    asked = app(
        silver="select country, sum(amount) from silver.payments where hr_day >= current_date - 7 group by 1",
        bronze="select decode(value) from bronze.payments limit 3",
        gold="select key from gold.CardSpend_tiles",
        dead="select reason, count(*) from silver.payments_dead group by all",
        live="select card, spend_1h, ratio from CardSpend where hr_event_time > now() - interval 1 minute",
        joined="with big as (from live.CardSpend) select count(*) from big join payments using (card)",
        tables="show tables",
    )
    assert find_query_problems(asked, lake_tables(asked)) == dict.fromkeys([query.name for query in asked.queries])


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select nope from silver.payments", 'column "nope"'),
        ("select * from silver.orders", "orders"),
        ("select * from live.Nobody", "Nobody"),
        ("selec 1", "syntax error"),
        ("select sum(card) from payments", "sum"),
        ("select 1; select 2", "2 statements"),
        ("delete from silver.payments", "DELETE is not answered"),
        ("copy silver.payments to 'x.csv'", "COPY is not answered"),
        ("select * from read_csv('/etc/passwd')", "/etc/passwd"),
        ("explain select 1", "explain"),
        ("select max(at) from payments", 'as "at"'),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused_with_its_name(sql: str, why: str) -> None:
    declared = app(good="select 1", bad=sql)
    refused = find_query_problems(declared, lake_tables(declared))
    assert refused["good"] is None
    assert why in str(refused["bad"])
    with pytest.raises(hr.DeclarationError, match="Query 'bad'"):
        require_valid_queries(declared, lake_tables(declared))


def test_queries_are_collected_from_names_and_lists() -> None:
    module = ModuleType("shop")
    first, second = hr.Query("first", "select 1"), hr.Query("second", "select 2", every="1m")
    vars(module).update(payments=payments, one=first, more=[second, first])
    assert build_app(module).queries == (first, second)
    assert second.every_us == 60_000_000
    vars(module).update(again=hr.Query("first", "select 3"))
    with pytest.raises(hr.DeclarationError, match="two declarations are named 'first'"):
        build_app(module)


def test_plan_shows_queries_and_refuses_what_cannot_be_answered(tmp_path: Path) -> None:
    file = tmp_path / f"{tmp_path.name.replace('-', '_')}.py"
    file.write_text(f'{MODULE}top = hr.Query("top cards", "from live.CardSpend", every="10s")\n')
    planned = CliRunner().invoke(main, ["plan", str(file), "--state", str(tmp_path)])
    assert planned.exit_code == 0, planned.output
    assert "top cards (query)\n  every 10s: from live.CardSpend" in planned.output
    file.write_text(f'{MODULE}top = hr.Query("top cards", "from live.Spend")\n')
    refused = CliRunner().invoke(main, ["plan", str(file), "--state", str(tmp_path)])
    assert refused.exit_code == 1
    assert "top cards (query)\n  REFUSED: Catalog Error" in refused.output
    sys.modules.pop(file.stem, None)
