"""A coroutine that was begun outside of a task and goes on in one."""

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


@types.coroutine
def resume_coroutine(
    started_coroutine: Coroutine[Any, Any, Result], awaited_future: Any
) -> Generator[Any, Any, Result]:
    """What a task can go on with, of a coroutine that was begun and waits for `awaited`."""
    try:
        while True:
            try:
                sent_value = yield awaited_future
            except BaseException as failure:  # noqa: BLE001 - it is the coroutine's own business
                awaited_future = started_coroutine.throw(failure)
            else:
                awaited_future = started_coroutine.send(sent_value)
    except StopIteration as stop:
        result: Result = stop.value
        return result
