"""Which rows make a function raise: found by halves, each given to it again.

├──────────────── raises ────────────────┤
├───── does not ─────┤├───── raises ─────┤
                      ├ does not ┤├───┬──┤    the rest must: it is not tried, but halved, down to single rows
"""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Row = TypeVar("Row")
Raises = Callable[[Sequence[Row]], str | None]  # what a function says of some rows; None where it takes them

DATA_ERRORS = ("21", "22", "23", "38", "P0")  # classes of SQLSTATE: about values, and about code that reads them
LONGEST = 400


def culprits(rows: Sequence[Row], raises: Raises[Row], *, is_sure: bool = False) -> Iterator[tuple[Row, str]]:
    """The rows that raise by themselves, and what they raise; what only several together raise is not among them.

    Where it is sure that there are some, only single rows are tried: the other half raised nothing.
    """
    why = "" if is_sure and len(rows) > 1 else raises(rows) if rows else None
    if why is None:
        return
    if len(rows) == 1:
        yield rows[0], why
        return
    middle = len(rows) // 2
    found = list(culprits(rows[:middle], raises))
    yield from found
    yield from culprits(rows[middle:], raises, is_sure=not found)


def said_of_data(message: str, sql_state: str | None) -> str | None:
    r"""What an error says of the values it met, in a line; None where it is about something else.

    >>> said_of_data("[DIVIDE_BY_ZERO] Division by zero.\n1/0", "22012")
    '[DIVIDE_BY_ZERO] Division by zero.'
    >>> said_of_data("Task failed: no space left on device", "58030") is None
    True
    """
    if not (sql_state or "").startswith(DATA_ERRORS):
        return None
    line = _python_line(message) if (sql_state or "").startswith("38") else message.strip().partition("\n")[0]
    return None if _is_of_the_world(line) else line[:LONGEST]


def _python_line(message: str) -> str:
    r"""The line of a traceback that names the exception: the one after the last that is indented.

    >>> _python_line("Traceback (most recent call last):\n  File 'a'\n    f()\nValueError: no\n SQLSTATE: 38000")
    'ValueError: no'
    """
    lines = [line for line in message.splitlines() if line.strip() and not line.strip().startswith("SQLSTATE")]
    indented = [place for place, line in enumerate(lines) if line.startswith("  ")]
    return lines[min(indented[-1] + 1, len(lines) - 1)] if indented else lines[-1]


def _is_of_the_world(line: str) -> bool:
    """Whether an exception is of files, networks or memory, whatever library raised it: no row is to blame for those.

    >>> _is_of_the_world("redis.exceptions.ConnectionError: refused"), _is_of_the_world("ValueError: 7")
    (True, False)
    """
    name = line.partition(":")[0].rpartition(".")[2]
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, OSError | MemoryError | ImportError)
