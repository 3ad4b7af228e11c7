"""Retries start-up steps that need the broker, so that no part ends because it is down."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HeadraceError

RETRY_SECONDS = 1.0
LOGGER = logging.getLogger("headrace.log")

StepResultT = TypeVar("StepResultT")


def retry_until_stopped(step: Callable[[], StepResultT], stop: threading.Event, label: str) -> StepResultT | None:
    """The result of a step, retried until it succeeds; None where `stop` is set meanwhile."""
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
