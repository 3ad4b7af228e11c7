"""The notebook output of declarations and results: complete, and escaped."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.client.protocol import FeatureRow, SqlAnswer
from headrace.declare.app import App
from headrace.spark.execution.execution_plan import PlannedQuery, PlannedStream
from tests.server.prediction_app import VIEWS, CardSpend, fraud, payments

EVIL = "<script>alert('x')</script>"


class Seen(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def seen(declared: Any) -> str:
    page = Seen(declared._repr_html_())
    assert page.tags <= {"div", "strong", "span", "table", "thead", "tbody", "tr", "th", "td"}
    return page.text


def test_a_stream_shows_its_columns_and_their_parts() -> None:
    text = seen(payments)
    assert "payments" in text
    assert "card string key" in " ".join(text.split())
    assert "late after 30m: side_output" in text


def test_a_view_shows_every_feature(tmp_path: Path) -> None:
    for name in CardSpend.names:
        assert name in seen(CardSpend)
    assert "distinct(card)" in seen(VIEWS[1])


def test_a_model_and_an_app_show_what_they_are_made_of(tmp_path: Path) -> None:
    model = fraud(tmp_path)
    assert "payments_1h" in seen(model)
    assert "CardSpend" in seen(model)
    assert "model fraud" in " ".join(seen(App("shop", (payments,), VIEWS, (model,))).split())


def test_a_plan_shows_its_queries() -> None:
    query = PlannedQuery("payments.gate", "payments", ("payments.clean",), "real-time", "stateless", 2, "nothing")
    text = seen(PlannedStream("payments", (), (query,), (), ("new",), (f"because {EVIL}",)))
    assert "real-time" in text
    assert f"REFUSED: because {EVIL}" in text


@pytest.mark.parametrize(
    "declared",
    [
        hr.Stream(
            "s",
            schema="id string, at timestamp",
            id="id",
            key="id",
            time="at",
            check="id <> '<script>'",
        ),
        SqlAnswer([{"name": EVIL, "type": "text"}], [[EVIL]], 1.0, cut=True),
        FeatureRow({"card": EVIL}, {"spend": EVIL}, None, None),
        App(EVIL, (), ()),
    ],
)
def test_what_looks_like_markup_is_shown_as_text(declared: Any) -> None:
    assert "<script>" in seen(declared)
    assert "<script>" not in declared._repr_html_()
