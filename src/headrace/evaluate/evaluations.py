"""What is evaluated beside the lake: made and started by a thread of its own, so that landing never waits for it."""

import logging
import threading
from collections.abc import Callable, Sequence

from headrace.evaluate.lasting import Together

RETRY_SECONDS = 30.0
LOGGER = logging.getLogger("headrace.evaluate")


class Evaluations:
    """Makes and starts each evaluation; one that cannot be made is tried again, and the others go on."""

    def __init__(self, makes: Sequence[Callable[[], Together]], retry_seconds: float = RETRY_SECONDS) -> None:
        self._waiting, self._begun = list(makes), list[Together]()
        self._retry_s, self._stopping, self._lock = retry_seconds, threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._begin_all, name="evaluations", daemon=True)

    @property
    def have_begun(self) -> bool:
        """Whether the first look of each, which costs far more than another, is behind it."""
        return not self._waiting and all(one.have_begun for one in self._begun)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            for one in self._begun:
                one.stop()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)
        for one in self._begun:
            one.join(timeout)

    def _begin_all(self) -> None:
        while not self._stopping.is_set() and self._waiting:
            self._waiting = [make for make in self._waiting if not self._has_begun(make)]
            if self._waiting:
                self._stopping.wait(self._retry_s)

    def _has_begun(self, make: Callable[[], Together]) -> bool:
        try:
            made = make()
            with self._lock:
                if not self._stopping.is_set():
                    made.start()
                    self._begun.append(made)
        except Exception as failure:  # noqa: BLE001  # a card that cannot be read, a full disk: the lake goes on
            LOGGER.error("An evaluation could not start, and is tried again: %s", failure)
            return False
        return True
