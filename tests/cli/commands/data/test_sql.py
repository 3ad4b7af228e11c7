"""`headrace sql`: queries a server or the lake, and prints results for people and for programs."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.embedded_servers.ports import HOST, free_port
from headrace.server.http.responses import Response
from headrace.server.http.routing import Request, post_route
from tests.server.server_thread import answering
from tests.sql.lakes import land, payment, payments

EVENTS = [payment(number) for number in range(1, 30)]
QUERY = "select country, count(*) as n, sum(amount) as spend from payments group by 1 order by 1 nulls last"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lake")
    land(made, payments, [*EVENTS, payment(0, country='a,"b\x1b[31m\n')])
    return made


def run(lake: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["sql", *words, "--http", f"{HOST}:{free_port()}", "--lake", str(lake)])


def test_without_a_server_the_lake_is_asked_and_it_says_so(lake: Path) -> None:
    said = run(lake, QUERY)
    assert said.exit_code == 0, said.output
    assert "without live tables" in said.stderr
    lines = said.stdout.splitlines()
    assert lines[0].split() == ["country", "n", "spend"]
    assert lines[2].split()[:2] == ["DE", "10"]
    assert "\x1b" not in said.stdout
    assert any(line.startswith('a,"b\\x1b[31m\\n') for line in lines)
    assert lines[-1].startswith("4 rows in ")


def test_csv_and_json_hold_the_same_rows(lake: Path, tmp_path: Path) -> None:
    written = tmp_path / "out.json"
    assert run(lake, QUERY, "--format", "json", "--output", str(written)).stdout == ""
    answer = json.loads(written.read_text())
    assert answer["columns"][1] == {"name": "n", "type": "BIGINT"}
    assert answer["cut"] is False
    head, *rows = csv.reader(io.StringIO(run(lake, QUERY, "--format", "csv").stdout))
    assert head == ["country", "n", "spend"]
    assert rows == [["" if value is None else str(value) for value in row] for row in answer["rows"]]
    assert rows[2][0] == 'a,"b\x1b[31m\n'


def test_what_is_cut_is_said_and_what_is_wrong_is_one_error(lake: Path) -> None:
    cut = run(lake, "from payments", "--limit", "2", "--json")
    assert len(json.loads(cut.stdout)["rows"]) == 2
    assert "There is more" in cut.stderr
    wrong = run(lake, "delete from payments")
    assert (wrong.exit_code, "DELETE is not answered" in wrong.output) == (1, True)
    nowhere = run(lake / "none", "select 1")
    assert (nowhere.exit_code, "there is no lake" in nowhere.output) == (1, True)


async def _echo(request: Request) -> Response:
    asked = json.loads(request.body)
    rows = [[asked["sql"], asked["limit"]]]
    columns = [{"name": "sql", "type": "VARCHAR"}, {"name": "limit", "type": "BIGINT"}]
    return Response(200, json.dumps({"columns": columns, "rows": rows, "took_ms": 1.0, "cut": False}).encode())


def test_a_server_that_answers_is_asked(lake: Path) -> None:
    with answering([post_route("/sql", _echo)]) as port:
        words = [
            "sql",
            "from live.X",
            "--limit",
            "7",
            "--http",
            f"{HOST}:{port}",
            "--lake",
            str(lake),
            "--format",
            "csv",
        ]
        said = CliRunner().invoke(main, words)
    assert said.stdout.splitlines() == ["sql,limit", "from live.X,7"]
    assert said.stderr == ""
