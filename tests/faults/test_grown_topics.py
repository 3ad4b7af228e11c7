"""A topic gets more partitions while its app is stopped, and while it runs: no event is lost or counts twice."""

import random
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # public, unmarked
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.client.client import create_admin_client
from headrace.kafka.producer.producer import Producer
from tests.e2e.derived_load import CARDS, Event, by_card, payments, send
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).parents[1] / "e2e" / "derived_app.py"
EACH = 500


def grow(broker: str, topic: str, partitions: int) -> None:
    admin = create_admin_client(broker)
    (grown,) = admin.create_partitions([NewPartitions(topic, partitions)]).values()
    grown.result()


def landed(running: Running) -> set[str]:
    """The ids of payments in the lake."""
    try:
        table = DeltaTable(running.state / "lake" / "silver" / "payments")
    except TableNotFoundError:
        return set()
    return set(table.to_pyarrow_table(columns=["id"])["id"].to_pylist())


def require_all(running: Running, events: list[Event]) -> None:
    ids = {event["id"] for event in events}
    wait_until(lambda: values(running) == by_card(events), 240, "every value to be right", running.said)
    wait_until(lambda: landed(running) == ids, 120, "all payments in the lake", running.said)


def values(running: Running) -> dict[str, dict[str, object]]:
    return {row["card"]: row["values"] for row in running.features("Instalments", CARDS)}


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_partitions_that_are_added_lose_nothing(tmp_path: Path) -> None:
    dice, events = random.Random(1), list[Event]()

    def more(broker: str) -> None:
        some = list(payments(EACH, dice.randrange(10**6), first=len(events)))
        with Producer(broker) as producer:
            send(producer, some, dice)
        events.extend(some)

    with EmbeddedBroker(tmp_path / "log", port=0) as broker:
        running = Running(
            APP, tmp_path / "state", "--broker", broker.address, "--lake-every", "2s", "--checkpoint", "5s"
        )
        with running:
            running.wait_until_ready()
            more(broker.address)
            require_all(running, events)
        grow(broker.address, "payments", 3)
        more(broker.address)
        with running:
            running.wait_until_ready()
            more(broker.address)
            require_all(running, events)
            grow(broker.address, "payments", 5)
            more(broker.address)
            require_all(running, events)
