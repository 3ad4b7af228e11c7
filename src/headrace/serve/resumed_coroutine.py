"""A coroutine that was begun outside of a task and goes on in one."""

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


@types.coroutine
def resumed(begun: Coroutine[Any, Any, Result], awaited: Any) -> Generator[Any, Any, Result]:
    """What a task can go on with, of a coroutine that was begun and waits for `awaited`."""
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as failure:  # noqa: BLE001 - it is the coroutine's own business
                awaited = begun.throw(failure)
            else:
                awaited = begun.send(sent)
    except StopIteration as ended:
        result: Result = ended.value
        return result
