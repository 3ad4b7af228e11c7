"""The page of what runs where says what the tests say."""

from tests.matrix import OPERATORS, PAGE, gathered, page


def test_the_page_is_what_the_marks_say() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.matrix`"


def test_every_operator_is_shown_in_a_lane() -> None:
    seen = gathered()
    assert [name for name in OPERATORS if not {"real-time", "micro-batch"} & seen[name].cells.keys()] == []
