"""A webhook that hangs: alerts fire and are resolved in the topic all the same, and are told once it speaks again."""

from pathlib import Path

import headrace as hr
from headrace.declare.alert import Alert, Watched
from headrace.local.ports import HOST
from headrace.watch.addresses import networks_of
from headrace.watch.board import Board
from headrace.watch.engine import Engine
from headrace.watch.phases import Phase, State
from headrace.watch.poster import Patience
from headrace.watch.run import Watch
from headrace.watch.values import Reading
from headrace.watch.webhook import Webhook
from tests.waiting import wait_until
from tests.watch.listening import answer, hang, listening, self_signed

lag = hr.Alert("lag", on=hr.metric("headrace_lag", stream="payments"), above=10)
SECOND_US = 1_000_000


class Known:
    """A value the test sets."""

    value = 0.0

    def look(self, now_us: int) -> None:
        """There is nothing to take in."""

    def read(self, _watched: Watched, _now_us: int) -> Reading:
        return Reading(self.value, str(self.value))


def test_the_watch_goes_on_and_tells_what_is_so_when_it_can(tmp_path: Path) -> None:
    certificate, kept, values = self_signed(tmp_path), list[Phase](), Known()

    def keep(_alert: Alert, state: State, _said: str) -> None:
        kept.append(state.phase)

    patience = Patience(attempt_seconds=3.0, attempts=1, pause_seconds=0.01)
    with (
        listening(certificate, hang, answer(200)) as server,
        Webhook(server.url, networks_of([HOST]), certificate, patience) as webhook,
    ):
        watch = Watch(Engine([lag], {}, keep), values, Board(), webhook)
        for at, value in enumerate([0.0, 50.0, 50.0, 50.0]):
            values.value = value
            watch.look(at * SECOND_US)
        assert "failed" not in watch.progress("app").notifications["webhook"], "a look waits for nobody"
        assert kept[-1] is Phase.FIRING
        assert watch.engine.firing == 1

        def given_up() -> bool:
            watch.look(10 * SECOND_US)
            return watch.progress("app").notifications["webhook"].get("failed") == 1

        wait_until(given_up, 10, "the one that hangs to be given up")
        values.value = 0.0

        def told() -> list[str]:
            watch.look(20 * SECOND_US)
            return [one["status"] for body in server.bodies for one in body["alerts"]]

        wait_until(lambda: told() == ["firing", "resolved"], 10, "the end to be told")
