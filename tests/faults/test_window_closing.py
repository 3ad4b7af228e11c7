"""A window closes within seconds, whatever the fate of a partition's last record."""

import time
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("window_closing_app.py")
LIMIT_S = 600  # a busy machine; the gate commits every half hour, so no commit can help


def click(name: str, partition: int, ago_ms: int = 0) -> dict[str, Any]:
    return {"id": name, "user": f"u{partition}", "at": time.time_ns() // 1_000_000 - ago_ms}


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_a_window_closes_long_before_the_gate_commits_where_the_last_records_are_dropped_and_dead(
    tmp_path: Path,
) -> None:
    with Running(APP, tmp_path / "state", "--lake", "off", "--checkpoint", "30m") as running:
        running.wait_until_ready()
        offsets = OffsetClient(running.broker)
        with Producer(running.broker) as producer:
            producer.send("clicks", click("first", 0), key="u0", partition=0)
        wait_until(lambda: sum(offsets.end_offset_list("visits")) == 1, LIMIT_S, "a window to close", running.said)
        began_s = time.monotonic()
        with Producer(running.broker) as producer:
            for partition in (0, 1):
                producer.send("clicks", click(f"c{partition}", partition), key=f"u{partition}", partition=partition)
            producer.send("clicks", click("late", 0, ago_ms=60_000), key="u0", partition=0)
            producer.send("clicks", b"not JSON", key="u1", partition=1)
        wait_until(lambda: sum(offsets.end_offset_list("visits")) == 3, LIMIT_S, "both windows to close", running.said)
        print(f"closed after {time.monotonic() - began_s:.1f} s")  # noqa: T201
        assert sum(offsets.end_offset_list("clicks.dropped")) == sum(offsets.end_offset_list("clicks.dead")) == 1
