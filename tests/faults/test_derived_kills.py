"""kill -9 of the streaming part with derived streams: after deduplication by id, each id is there exactly once."""

import json
import random
import threading
import time
from pathlib import Path

import pytest

from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from tests.e2e.derived_load import CARDS, Event, by_card, instalments, payments, raising, send
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).parents[1] / "e2e" / "derived_app.py"
A_SECOND = 40
QUICK_S, STEADY_S = (1, 15), (35, 45)  # some are long enough that the part does not count as always failing


class Sending(threading.Thread):
    """Sends some payments each second until stopped."""

    def __init__(self, broker: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.events = list[Event]()
        self._broker, self._seed, self._stopped = broker, seed, threading.Event()

    def run(self) -> None:
        dice = random.Random(self._seed)
        with Producer(self._broker) as producer:
            while not self._stopped.wait(1):
                some = list(payments(A_SECOND, dice.randrange(10**6), first=len(self.events), raising=400))
                send(producer, some, dice)
                self.events += some

    def finish(self) -> list[Event]:
        self._stopped.set()
        self.join()
        return self.events


def derived_of(broker: str) -> list[dict[str, object]]:
    """Every clean record of `instalments`, as often as it is there."""
    offsets = OffsetClient(broker)
    begin, end = offsets.topic_start_offsets(["instalments.clean"]), offsets.topic_end_offsets(["instalments.clean"])
    return [json.loads(record.value or b"") for record in read_offset_range(broker, begin, end)]


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [3, 20])
def test_kills_of_the_streaming_part_change_nothing(tmp_path: Path, kills: int) -> None:
    dice = random.Random(kills)
    with Running(APP, tmp_path / "state", "--lake", "off", "--checkpoint", "5s") as running:
        running.wait_until_ready()
        sending = Sending(running.broker, seed=kills)
        sending.start()
        for number in range(kills):
            pause_s = dice.uniform(*STEADY_S if number % 4 == 3 else QUICK_S)
            moment = time.monotonic() + pause_s
            wait_until(lambda at=moment: time.monotonic() > at, 60, "a random moment")
            running.kill(dice.choice(["stream", "spark"]))
        events = sending.finish()
        running.wait_until_ready()
        wait_until(lambda: _values(running) == by_card(events), 240, "every value to be right", running.said)
        found = derived_of(running.broker)
        assert {row["id"]: row["each"] for row in found} == instalments(events)
        assert all(row["each"] == instalments(events)[str(row["id"])] for row in found)
        wait_until(lambda: running.events("instalments")["dead"] >= len(raising(events)), 60, "what raised to be told")


def _values(running: Running) -> dict[str, dict[str, object]]:
    return {row["card"]: row["values"] for row in running.features("Instalments", CARDS)}
