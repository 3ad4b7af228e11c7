"""The limits and pauses of `tests.waiting`."""

import pytest

from tests import waiting
from tests.waiting import wait_until


class Clock:
    """A clock that only looks and pauses move."""

    def __init__(self, look_s: float) -> None:
        self.now_s, self.pauses, self._look_s = 0.0, list[float](), look_s

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 6))
        self.now_s += seconds

    def look(self) -> bool:
        self.now_s += self._look_s
        return len(self.pauses) == 3


@pytest.mark.parametrize(("look_s", "pause_s"), [(0.0, 0.02), (0.05, 0.2), (10.0, 0.5)])
def test_what_is_slow_to_look_at_is_looked_at_less_often(
    look_s: float, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(look_s)
    monkeypatch.setattr(waiting, "time", clock)
    wait_until(clock.look, 60, "three pauses")
    assert clock.pauses == [pause_s] * 3


def test_what_does_not_come_fails_with_what_was_said_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(waiting, "time", clock)
    with pytest.raises(pytest.fail.Exception, match="waited 60 s for rain\nit is dry"):
        wait_until(lambda: False, 1, "rain", lambda: "it is dry")
    assert 60 < clock.now_s < 61
