"""Work beside the lake that lasts as long as the app does."""

import logging
import threading
from abc import abstractmethod
from collections.abc import Sequence

from headrace.lake.care import Caretaker

LOGGER = logging.getLogger("headrace.evaluate")


class Lasting(threading.Thread):
    """The work of one model; what fails is begun again after a pause, and goes on where it was."""

    def __init__(self, name: str, pause_seconds: float) -> None:
        super().__init__(name=name, daemon=True)
        self._pause_s = pause_seconds
        self._stopped = threading.Event()
        self.has_begun = False  # its first look, which costs far more than another, is behind it

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._run()
            except Exception as failure:  # noqa: BLE001  # a broker that restarts, a full disk: nothing is lost by waiting
                if not self._stopped.is_set():
                    LOGGER.error("%s has stopped, and is started again: %s", self.name, failure)
            self._stopped.wait(self._pause_s)

    def stop(self) -> None:
        self._stopped.set()

    @abstractmethod
    def _run(self) -> None:
        """Work until stopped."""


class Together:
    """The work of several models, and whoever cares for the tables they write."""

    def __init__(self, each: Sequence[Lasting], caretaker: Caretaker) -> None:
        self._each, self._caretaker = each, caretaker

    @property
    def have_begun(self) -> bool:
        return all(one.has_begun for one in self._each)

    def start(self) -> None:
        for one in self._each:
            one.start()
        self._caretaker.start()

    def stop(self) -> None:
        self._caretaker.stop()
        for one in self._each:
            one.stop()

    def join(self, timeout: float | None = None) -> None:
        for one in self._each:
            one.join(timeout)
