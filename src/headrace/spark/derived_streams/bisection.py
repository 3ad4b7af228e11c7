"""Finds the rows that make a function raise, by bisection: each half is given to the function again.

├──────────────── raises ────────────────┤
├───── does not ─────┤├───── raises ─────┤
                      ├ does not ┤├───┬──┤    the rest must raise: it is halved without a try, down to single rows
"""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Row = TypeVar("Row")
RowProbe = Callable[[Sequence[Row]], str | None]  # the error of a function on some rows; None where it succeeds

DATA_ERROR_CLASSES = ("21", "22", "23", "38", "P0")  # SQLSTATE classes about values, and about code that reads them
MAX_ERROR_LENGTH = 400


def find_failing_rows(
    rows: Sequence[Row], probe: RowProbe[Row], *, is_known_to_fail: bool = False
) -> Iterator[tuple[Row, str]]:
    """The rows that raise alone, and their errors; rows that raise only together are not included.

    If the rows are known to fail, a half is not tried where the other half did not raise.
    """
    error = "" if is_known_to_fail and len(rows) > 1 else probe(rows) if rows else None
    if error is None:
        return
    if len(rows) == 1:
        yield rows[0], error
        return
    middle = len(rows) // 2
    failing_rows = list(find_failing_rows(rows[:middle], probe))
    yield from failing_rows
    yield from find_failing_rows(rows[middle:], probe, is_known_to_fail=not failing_rows)


def extract_data_error(message: str, sql_state: str | None) -> str | None:
    r"""The message of an error about values, in one line; None for an error about anything else.

    >>> extract_data_error("[DIVIDE_BY_ZERO] Division by zero.\n1/0", "22012")
    '[DIVIDE_BY_ZERO] Division by zero.'
    >>> extract_data_error("Task failed: no space left on device", "58030") is None
    True
    """
    if not (sql_state or "").startswith(DATA_ERROR_CLASSES):
        return None
    line = _exception_line(message) if (sql_state or "").startswith("38") else message.strip().partition("\n")[0]
    return None if _is_environment_error(line) else line[:MAX_ERROR_LENGTH]


def _exception_line(message: str) -> str:
    r"""The line of a traceback that names the exception: the one after the last indented line.

    >>> _exception_line("Traceback (most recent call last):\n  File 'a'\n    f()\nValueError: no\n SQLSTATE: 38000")
    'ValueError: no'
    """
    lines = [line for line in message.splitlines() if line.strip() and not line.strip().startswith("SQLSTATE")]
    indented_numbers = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return lines[min(indented_numbers[-1] + 1, len(lines) - 1)] if indented_numbers else lines[-1]


def _is_environment_error(line: str) -> bool:
    """Whether an exception is about files, networks or memory, from whatever library: those are not a row's fault.

    >>> _is_environment_error("redis.exceptions.ConnectionError: refused"), _is_environment_error("ValueError: 7")
    (True, False)
    """
    name = line.partition(":")[0].rpartition(".")[2]
    error_class = getattr(builtins, name, None)
    return isinstance(error_class, type) and issubclass(error_class, OSError | MemoryError | ImportError)
