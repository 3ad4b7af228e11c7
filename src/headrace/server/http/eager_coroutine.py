"""Resumes a coroutine in a task after it was started outside of one."""

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


@types.coroutine
def resume_coroutine(
    started_coroutine: Coroutine[Any, Any, Result], awaited_future: Any
) -> Generator[Any, Any, Result]:
    """Continue a started coroutine, which waits for `awaited_future`, in the current task."""
    try:
        while True:
            try:
                sent_value = yield awaited_future
            except BaseException as failure:  # noqa: BLE001 - the coroutine handles it
                awaited_future = started_coroutine.throw(failure)
            else:
                awaited_future = started_coroutine.send(sent_value)
    except StopIteration as stop:
        result: Result = stop.value
        return result
