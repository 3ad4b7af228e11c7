"""The zoo covers every possible pair of values; impossible pairs fail with the expected error."""

from pathlib import Path

import pytest

import headrace as hr
from headrace.declare.app import load_app
from tests.apps.domains import DOMAINS
from tests.apps.factors import EXCLUSIONS, FACTORS, Row, is_possible, pairs_of, possible_pairs
from tests.apps.page import PAGE
from tests.apps.pairs import read_rows
from tests.apps.text import NETWORK, SORTS, TABLE, app_text
from tests.models.networks import weighing

ROWS = read_rows()
PLAIN = {factor: "none" if "none" in values else values[0] for factor, values in FACTORS.items()}
SCHEMA = "id string, card string, amount double, at timestamp"


def written(row: Row, folder: Path, is_changed: bool = False) -> Path:
    (folder / TABLE).write_text("sort_name,factor\n" + "".join(f"{one},1.5\n" for one in SORTS))
    (folder / NETWORK).write_bytes(weighing(2))
    file = folder / "zoo_app.py"
    file.write_text(app_text(row, str(folder), is_changed))
    return file


def row_with(**choices: str) -> Row:
    """The plainest app that has these values."""
    values = PLAIN | choices
    view = tuple((factor, values[factor]) for factor in ("reads", "form", "entity"))
    of_app = tuple((factor, value) for factor, value in values.items() if factor not in dict(view))
    return Row("smart meters", of_app, (view, view))


def test_every_pair_of_values_is_in_an_app() -> None:
    found = {pair for row in ROWS for pair in pairs_of(row)}
    assert sorted(map(sorted, possible_pairs() - found)) == [], "run `python -m tests.apps.pairs`"


def test_there_are_thirty_apps_and_each_is_of_a_domain_of_its_own() -> None:
    assert len(ROWS) >= 30
    assert len({row.domain for row in ROWS}) == len(ROWS)
    assert {row.domain for row in ROWS} <= DOMAINS.keys()
    assert all(map(is_possible, ROWS))


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.domain)
def test_every_row_is_an_app_that_can_be_imported(
    row: Row, is_changed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_REGISTRY", "http://127.0.0.1:1")
    app = load_app(str(written(row, tmp_path, is_changed)))
    assert len(app.views) == 2
    assert len(app.models) == (row["model"] != "none")
    assert len(app.sinks) == (row["sink"] != "none") + (row["second_sink"] != "none")


@pytest.mark.parametrize("exclusion", [one for one in EXCLUSIONS if one.is_refused], ids=lambda one: str(one.first))
def test_what_the_product_excludes_it_refuses_in_these_words(exclusion: object, tmp_path: Path) -> None:
    choices = dict((exclusion.first, exclusion.second))  # type: ignore[attr-defined]
    with pytest.raises(hr.DeclarationError) as refused:
        load_app(str(written(row_with(**choices), tmp_path)))
    assert exclusion.why in str(refused.value)  # type: ignore[attr-defined]


def test_a_pattern_that_corrects_itself_is_refused() -> None:
    stream = hr.Stream("events", schema=SCHEMA, id="id", key="card", time="at", late=hr.Late("20s"))
    late = hr.Late("4s", then="update", until="12s")
    with pytest.raises(hr.DeclarationError, match="would change matches that were emitted"):
        hr.pattern("one", by="card", within="8s", late=late).step("a").on(stream)


def test_a_column_that_is_not_of_ascii_is_refused() -> None:
    with pytest.raises(hr.DeclarationError, match="Write each column as a name and a type"):
        hr.Stream("events", schema="id string, card string, größe double, at timestamp", id="id", key="card", time="at")


def test_the_page_names_every_app_and_every_exclusion() -> None:
    page = PAGE.read_text()
    assert [row.domain for row in ROWS if f"| {row.domain} |" not in page] == []
    assert [one.why for one in EXCLUSIONS if one.why not in page] == []
