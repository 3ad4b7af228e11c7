"""The topics of an app exist with the required settings, or the error says what to do."""

import time
from dataclasses import replace

import pytest
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # public, unmarked

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import free_port
from headrace.kafka.client.client import create_admin_client
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.topics import (
    DAY_MS,
    PartitionMismatch,
    TopicSetup,
    TopicSpec,
    changelog_config,
    ensure_topics,
    fate_config,
    fate_topics,
    raw_config,
)
from tests.kafka.kafka_tools import config_of, create_topic
from tests.kafka.streams import new_stream, new_view
from tests.waiting import patiently, wait_until


def partitions(broker: EmbeddedBroker, topic: str) -> int:
    return len(OffsetClient(broker.address).list_partitions([topic]))


def test_every_topic_of_an_app_is_created(broker: EmbeddedBroker) -> None:
    stream = new_stream(partitions=3)
    view = new_view(stream)
    assert ensure_topics(broker.address, [stream], [view]) == TopicSetup({stream.name: 3}, {view.name: 3})
    for topic in (stream.name, stream.clean, stream.late_topic, stream.dead, view.topic):
        assert partitions(broker, topic) == 3
        assert config_of(broker.address, topic)["message.timestamp.type"] == "LogAppendTime"
    assert partitions(broker, stream.dropped) == 0


def test_predictions_have_the_stream_s_partitions_and_outlive_their_labels(broker: EmbeddedBroker) -> None:
    stream, told = new_stream(partitions=3), new_stream()
    labels = hr.Labels(told, value="amount", within="30d")
    model = hr.Model(f"{stream.name}-fraud", on=stream, features=[new_view(stream)], file="fraud.onnx")
    judged = hr.Model(f"{stream.name}-judged", on=stream, features=model.views, file="fraud.onnx", labels=labels)
    ensure_topics(broker.address, [], [], [model, judged])
    kept = {one.predictions: config_of(broker.address, one.predictions) for one in (model, judged)}
    assert {partitions(broker, topic) for topic in kept} == {3}
    assert [int(config["retention.ms"]) // DAY_MS for config in kept.values()] == [7, 31]
    assert {config["message.timestamp.type"] for config in kept.values()} == {"LogAppendTime"}


def test_only_a_stream_that_drops_has_a_topic_of_what_was_dropped(broker: EmbeddedBroker) -> None:
    stream = new_stream(late=hr.Late("2m", then="drop"))
    ensure_topics(broker.address, [stream])
    assert partitions(broker, stream.dropped) == 2


def test_topics_that_are_there_are_left_alone(broker: EmbeddedBroker) -> None:
    stream = new_stream()
    view = new_view(stream)
    first = ensure_topics(broker.address, [stream], [view])
    assert ensure_topics(broker.address, [], [view]) == first


def test_the_other_topics_follow_the_partitions_of_a_given_raw_topic(broker: EmbeddedBroker) -> None:
    stream = new_stream(partitions=2)
    create_topic(broker.address, TopicSpec(stream.name, stream.name, 5, {"message.timestamp.type": "LogAppendTime"}))
    assert ensure_topics(broker.address, [stream], [new_view(stream)]).stream_partitions == {stream.name: 5}
    assert partitions(broker, stream.clean) == 5


def test_the_topics_of_a_raw_topic_that_has_grown_grow_as_well_and_its_changelog_stays(broker: EmbeddedBroker) -> None:
    stream = new_stream(partitions=2)
    view = new_view(stream)
    ensure_topics(broker.address, [stream], [view])
    admin = create_admin_client(broker.address)
    (grown,) = admin.create_partitions([NewPartitions(stream.name, 5)]).values()
    grown.result()
    assert ensure_topics(broker.address, [stream], [view]) == TopicSetup({stream.name: 5}, {view.name: 2})
    assert {partitions(broker, topic) for topic in fate_topics(stream)} == {5}
    assert [partitions(broker, topic) for topic in (view.topic, view.served)] == [2, 2]


def test_a_raw_topic_stamped_by_producers_is_warned_about(broker: EmbeddedBroker) -> None:
    stream = new_stream()
    create_topic(broker.address, TopicSpec(stream.name, stream.name, 2, {"message.timestamp.type": "CreateTime"}))
    (warning,) = ensure_topics(broker.address, [stream]).warnings
    assert stream.name in warning
    assert "--add-config message.timestamp.type=LogAppendTime" in warning


def test_an_output_with_other_partitions_is_an_error_that_says_what_to_delete(broker: EmbeddedBroker) -> None:
    stream = new_stream(partitions=2)
    create_topic(broker.address, TopicSpec(stream.clean, stream.name, 4, {}))
    with pytest.raises(PartitionMismatch, match=rf"'{stream.clean}' has 4 partitions .* has 2\. Delete"):
        ensure_topics(broker.address, [stream])
    assert partitions(broker, stream.name) == 0


def test_a_broker_that_is_not_there_is_named_and_not_waited_for() -> None:
    address = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable, match=rf"'{address}'.*--broker"):
        ensure_topics(address, [new_stream()])
    assert time.monotonic() - began < patiently(12)


def test_a_changelog_is_compacted_and_outlives_its_longest_window() -> None:
    config = changelog_config(new_view(new_stream(), short="10m", long="7d"))
    assert config["cleanup.policy"] == "compact,delete"
    assert int(config["retention.ms"]) == 7 * DAY_MS + 3_600_000 + DAY_MS


def test_a_changelog_with_a_lifetime_window_is_only_compacted() -> None:
    stream = new_stream()
    view = new_view(stream, hour="1h", ever="forever")
    config = changelog_config(view)
    assert (config["cleanup.policy"], config["retention.ms"]) == ("compact", "-1")
    assert raw_config(stream, [view]) == raw_config(stream, [new_view(stream, hour="1h")])


def test_a_changelog_is_kept_longer_once_its_view_has_a_longer_window(broker: EmbeddedBroker) -> None:
    stream = new_stream()
    view = new_view(stream, long="60d")
    longer, ever = (replace(new_view(stream, long=window), name=view.name) for window in ("90d", "forever"))
    ensure_topics(broker.address, [stream], [view])
    for now in (longer, ever):
        ensure_topics(broker.address, [stream], [now])
        wanted = changelog_config(now)
        wait_until(lambda wanted=wanted: wanted.items() <= config_of(broker.address, view.topic).items(), 10, "change")


def test_a_changelog_takes_a_tile_of_full_sketches() -> None:
    stream = new_stream()

    @hr.features(stream, by="card")
    class Fine:
        cards = hr.distinct("card", windows="1h", error=0.001)
        ids = hr.distinct("id", windows="1h", error=0.001)

    assert int(changelog_config(Fine)["max.message.bytes"]) > 2 * (1 << 21) * 4 // 3


def test_fates_outlive_the_raw_records_they_tell_of() -> None:
    stream = new_stream(late=hr.Late("1h", then="update", until="30d"))
    raw = raw_config(stream, [new_view(stream, week="7d")])
    assert int(raw["retention.ms"]) > 37 * DAY_MS
    assert int(fate_config(raw)["retention.ms"]) > int(raw["retention.ms"]) + int(raw["segment.ms"])


def test_fates_of_a_raw_topic_kept_for_ever_are_kept_for_ever() -> None:
    assert fate_config({"retention.ms": "-1", "segment.ms": "1"})["retention.ms"] == "-1"


def test_the_changelog_of_several_streams_has_the_partitions_of_the_one_with_most_and_keeps_them(
    broker: EmbeddedBroker,
) -> None:
    one, other, third = new_stream(partitions=1), new_stream(partitions=3), new_stream(partitions=4)
    view = new_view([one, other])
    assert ensure_topics(broker.address, [one], [view]) == TopicSetup({one.name: 1, other.name: 3}, {view.name: 3})
    assert [partitions(broker, topic) for topic in (one.clean, other.clean, view.topic)] == [1, 3, 3]
    wider = replace(view, streams=(one, other, third))
    assert ensure_topics(broker.address, [], [wider]).changelog_partitions == {view.name: 3}
    assert partitions(broker, third.clean) == 4
