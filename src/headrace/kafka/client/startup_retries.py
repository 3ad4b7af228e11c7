"""Steps at the start of a part that need the broker: tried until they succeed, so that its absence ends nobody."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HeadraceError

RETRY_SECONDS = 1.0
LOGGER = logging.getLogger("headrace.log")

StepResultT = TypeVar("StepResultT")


def retry_until_stopped(step: Callable[[], StepResultT], stop: threading.Event, label: str) -> StepResultT | None:
    """The result of a step, tried until it does not fail; None where it is to stop meanwhile."""
    last_message = ""
    while not stop.is_set():
        try:
            return step()
        except HeadraceError as error:
            if str(error) != last_message:
                LOGGER.warning("%s: waiting: %s", label, error)
                last_message = str(error)
        stop.wait(RETRY_SECONDS)
    return None
