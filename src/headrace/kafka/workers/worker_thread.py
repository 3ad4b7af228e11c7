"""A worker in its own thread."""

import threading
from abc import abstractmethod


class WorkerThread(threading.Thread):
    """Works until it is stopped, and keeps the failure that ended it."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None  # the failure that stopped it, if any
        self.stop_event = threading.Event()

    def run(self) -> None:
        try:
            self._work()
        except Exception as failure:  # noqa: BLE001  # a thread has no caller: `failure` reports it
            self.failure = failure
        finally:
            self._close()

    def stop(self) -> None:
        """Stop after the work in flight."""
        self.stop_event.set()
        self._interrupt()
        if self.ident is not None:
            self.join()

    def raise_failure(self) -> None:
        """Raise the failure that stopped it, if any."""
        if self.failure is not None:
            raise self.failure

    @abstractmethod
    def _work(self) -> None:
        """Work until `stop_event` is set."""

    def _interrupt(self) -> None:
        """Stop what does not check `stop_event` itself."""

    def _close(self) -> None:
        """Release its resources, in its own thread."""
