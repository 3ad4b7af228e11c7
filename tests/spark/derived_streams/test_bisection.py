"""Bisection finds all rows that raise and no others, whatever the other rows are."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.derived_streams.bisection import extract_data_error, find_failing_rows

rows = st.lists(st.integers(0, 1000), max_size=200, unique=True)


@given(rows, st.sets(st.integers(0, 1000), max_size=20))
def test_exactly_the_rows_that_raise_are_found_in_their_order(given_rows: list[int], bad: set[int]) -> None:
    def raises(some: Sequence[int]) -> str | None:
        return next((f"no {row}" for row in some if row in bad), None)

    assert list(find_failing_rows(given_rows, raises)) == [(row, f"no {row}") for row in given_rows if row in bad]


@given(rows)
def test_what_only_rows_together_raise_is_no_rows_fault(given_rows: list[int]) -> None:
    def raises(some: Sequence[int]) -> str | None:
        return "too many" if len(some) > 1 else None

    assert list(find_failing_rows(given_rows, raises)) == []


def test_one_row_among_many_takes_few_trials() -> None:
    tried = list[int]()

    def raises(some: Sequence[int]) -> str | None:
        tried.append(len(some))
        return "no" if 777 in some else None

    assert [row for row, _ in find_failing_rows(range(10_000), raises)] == [777]
    assert len(tried) <= 28


def test_errors_of_values_are_told_in_a_line_and_those_of_the_world_are_not() -> None:
    python = "Traceback (most recent call last):\n  File 'app.py', line 3, in f\n    g()\n{}\n SQLSTATE: 38000"
    assert (
        extract_data_error("[CAST_INVALID_INPUT] The value 'x'.\n== SQL ==", "22018")
        == "[CAST_INVALID_INPUT] The value 'x'."
    )
    assert extract_data_error("[USER_RAISED_EXCEPTION] no SQLSTATE: P0001", "P0001") is not None
    assert extract_data_error(python.format("ValueError: no\nreally"), "38000") == "ValueError: no"
    assert extract_data_error(python.format("urllib3.exceptions.TimeoutError: slow"), "38000") is None
    assert extract_data_error(python.format("MemoryError"), "38000") is None
    assert extract_data_error("Job aborted: no space left on device", None) is None
    assert extract_data_error("Kafka is away", "08000") is None
