"""docs/operators.md agrees with the marks of the tests."""

from tests.matrix import DELIVERIES, OPERATORS, PAGE, SINKS, gathered, page


def test_the_page_is_what_the_marks_say() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.matrix`"


def test_every_operator_is_shown_in_a_lane() -> None:
    seen = gathered()
    assert [name for name in OPERATORS if not {"real-time", "micro-batch"} & seen[name].cells.keys()] == []


def test_every_delivery_of_every_sink_is_shown_or_refused() -> None:
    seen = gathered()
    missing = [(sink, delivery) for sink in SINKS for delivery in DELIVERIES if delivery not in seen[sink].cells]
    assert missing == [("Webhook", "at_most_once")]  # without a fault it is the same as at_least_once
