"""A window closes in seconds, whatever became of the last record of a partition."""

import time
from pathlib import Path

import pytest

from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("put_aside_app.py")
CHECKPOINT_S = 300  # the gate commits as often: what is to be waited for no longer


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_window_closes_long_before_the_gate_commits_where_the_last_records_are_dropped_and_dead(
    tmp_path: Path,
) -> None:
    with Running(APP, tmp_path / "state", "--lake", "off") as running:
        running.wait_until_ready()
        began_s, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        with Producer(running.broker) as producer:
            for partition in (0, 1):
                click = {"id": f"c{partition}", "user": f"u{partition}", "at": now_ms}
                producer.send("clicks", click, key=click["user"], partition=partition)
            producer.send("clicks", {"id": "d", "user": "u0", "at": now_ms - 60_000}, key="u0", partition=0)
            producer.send("clicks", b"not JSON", key="u1", partition=1)
        offsets = Offsets(running.broker)
        wait_until(lambda: sum(offsets.ends("visits")) == 2, CHECKPOINT_S, "both windows to close", running.said)
        took_s = time.monotonic() - began_s
        print(f"closed after {took_s:.1f} s")  # noqa: T201
        assert took_s < CHECKPOINT_S / 3
        assert sum(offsets.ends("clicks.dropped")) == sum(offsets.ends("clicks.dead")) == 1
