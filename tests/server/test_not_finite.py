"""NaN and infinities against `check`, on every path that checks events, as docs/declarations.md says."""

import re
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.tiles.events.record_classification import RawRecord, classify_records
from tests.models.networks import DOUBLE, summing
from tests.server.server_thread import NOT_LOGGED, board_of, serving

PAGE = Path(__file__).parents[2] / "docs" / "declarations.md"
VALUES = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
AT, AT_US = "2026-01-01T00:00:00Z", 1_767_225_600_000_000


def documented() -> list[tuple[str, str, bool]]:
    """Each check of the page, each value, and whether it passes."""
    section = PAGE.read_text().partition("### NaN and infinities")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.*)` \| (\S+) \| (\S+) \| (\S+) \|$", section, re.MULTILINE)
    told = [(check, dict(zip(VALUES, said, strict=True))) for check, *said in rows if check != "check"]
    return [(check, name, "passes" in words) for check, said in told for name, words in said.items()]


def stream_of(check: str) -> hr.Stream:
    schema = "id string, card string, amount double, at timestamp"
    return hr.Stream("payments", schema=schema, id="id", key="card", time="at", check=check)


def test_the_page_tells_of_several_checks() -> None:
    assert len(documented()) == 15


@pytest.mark.parametrize(("check", "name", "passes"), documented())
def test_the_gate_judges_it_as_documented_with_quotes_or_without(check: str, name: str, passes: bool) -> None:
    for amount in (name, f'"{name}"'):
        value = f'{{"id":"1","card":"c","at":"{AT}","amount":{amount}}}'.encode()
        (verdict,) = classify_records(stream_of(check), [RawRecord(value, AT_US)])
        assert (verdict.fate == "clean") is passes


@pytest.mark.parametrize(("check", "name", "passes"), documented())
def test_a_test_of_a_view_judges_it_as_documented(check: str, name: str, passes: bool) -> None:
    @hr.features(stream_of(check), by="card")
    class Spend:
        payments = hr.count(windows="1h")

    fed = hr.testing.feed(Spend, [{"id": "1", "card": "c", "amount": VALUES[name], "at": AT}])
    assert bool(fed.dead) is not passes


@pytest.mark.parametrize("check", list(dict.fromkeys(check for check, _, _ in documented())))
def test_a_prediction_that_includes_its_event_judges_it_as_documented(check: str, tmp_path: Path) -> None:
    stream = stream_of(check)

    @hr.features(stream, by="card")
    class Spend:
        payments = hr.count(windows="1h")

    file = tmp_path / "counting.onnx"
    file.write_bytes(summing(1, DOUBLE))
    view: Any = Spend
    model = hr.Model("counting", on=stream, features=[view], file=str(file), inputs=["payments_1h"])
    app = App("shop", (stream,), (view,), (model,))
    with serving(app, MemoryStoreReader(MemoryStore([view]), None), board_of(app), scoring=NOT_LOGGED) as ask:
        for _, name, passes in (one for one in documented() if one[0] == check):
            for amount in (name, f'"{name}"'):
                said = ask("POST", "/predict/counting?include=true", f'{{"id":"1","card":"c","amount":{amount}}}')
                assert (said.status, check, name) == (200 if passes else 400, check, name)
                assert passes or "fails the check" in said.error
