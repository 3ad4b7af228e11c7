"""An evaluation that cannot be made or started leaves the others and the lake as they are, and is tried again."""

import threading

from headrace.evaluate.evaluations import Evaluations
from headrace.evaluate.lasting import Lasting, Together
from headrace.lake.care import Care, Caretaker
from tests.waiting import wait_until

LIMIT_S = 30.0


class Works(Lasting):
    """Begins at once and works until it is stopped."""

    def __init__(self) -> None:
        super().__init__("works", 0.01)
        self.runs = threading.Event()

    def _run(self) -> None:
        self.has_begun = True
        self.runs.set()
        self._stopped.wait()


def test_an_evaluation_that_cannot_be_made_is_tried_again_while_the_others_run() -> None:
    works, late, tries = Works(), Works(), list[int]()

    def make_late() -> Together:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("a card that cannot be read")
        return Together([late], Caretaker([], Care()))

    evaluations = Evaluations([make_late, lambda: Together([works], Caretaker([], Care()))], retry_seconds=0.2)
    evaluations.start()
    try:
        wait_until(works.runs.is_set, LIMIT_S, "the other one")
        wait_until(lambda: evaluations.have_begun, LIMIT_S, "both of them")
        assert len(tries) == 3
    finally:
        evaluations.stop()
        evaluations.join(LIMIT_S)
    assert not works.is_alive()
    assert not late.is_alive()
