"""Steps at the start of a part that need the broker: tried until they succeed, so that its absence ends nobody."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HeadraceError

RETRY_SECONDS = 1.0
LOGGER = logging.getLogger("headrace.log")

Result = TypeVar("Result")


def retry_until(step: Callable[[], Result], stop: threading.Event, what: str) -> Result | None:
    """The result of a step, tried until it does not fail; None where it is to stop meanwhile."""
    said = ""
    while not stop.is_set():
        try:
            return step()
        except HeadraceError as problem:
            if str(problem) != said:
                LOGGER.warning("%s: waiting: %s", what, problem)
                said = str(problem)
        stop.wait(RETRY_SECONDS)
    return None
