"""While a query is down, its driver recreates missing topics, and ends if partitions were added."""

from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

import headrace as hr
from headrace.declare.app import App
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.offsets import OffsetClient
from headrace.spark.execution.app_queries import StreamingConfig, plan_queries
from headrace.spark.execution.query_manager import PartitionsChanged, QueryManager
from tests.waiting import wait_until

LIMIT_S = 120


def crew_of(broker: str, name: str, state: Path) -> QueryManager:
    taps = hr.Stream(name, schema="id string, card string, at timestamp", id="id", key="card", time="at", partitions=1)
    app, place = App("app", (taps,), ()), StreamingConfig(broker, state)
    return QueryManager(cast("Any", None), app, place, plan_queries(app, place))


def partitions(broker: str, topic: str) -> int:
    return len(OffsetClient(broker).list_partitions([topic]))


def test_a_topic_that_is_gone_is_made_again(broker: EmbeddedBroker, tmp_path: Path) -> None:
    crew, admin = crew_of(broker.address, "removed", tmp_path), AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics(["removed.clean"])["removed.clean"].result()
    wait_until(lambda: partitions(broker.address, "removed.clean") == 0, LIMIT_S, "the topic to be gone")
    crew.repair_topics()
    wait_until(lambda: partitions(broker.address, "removed.clean") == 1, LIMIT_S, "the topic to be there")


def test_partitions_that_were_added_end_the_process_which_starts_again_with_all_of_them(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    crew, admin = crew_of(broker.address, "grown", tmp_path), AdminClient({"bootstrap.servers": broker.address})
    crew.repair_topics()
    admin.create_partitions([NewPartitions("grown", 3)])["grown"].result()
    wait_until(lambda: partitions(broker.address, "grown") == 3, LIMIT_S, "the partitions to be there")
    with pytest.raises(PartitionsChanged, match="grown has 3 partitions, and its queries were planned for 1"):
        crew.repair_topics()


def test_a_broker_that_is_away_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(tmp_path / "log", port=0) as broker:
        crew = crew_of(broker.address, "away", tmp_path)
    crew.repair_topics()
    assert "Could not check the topics" in caplog.text
