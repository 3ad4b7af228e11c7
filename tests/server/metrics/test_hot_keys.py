"""GET /hot: a planted hot key is named with valid bounds, no other key is, and no metric contains a key."""

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

import headrace as hr
from headrace.cli import main
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.key_counts import StreamKeyCounts
from headrace.kafka.partition_skew import PartitionSkew
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics
from headrace.server.metrics.hot_keys import MAX_KEY_CHARS, HotKeyReport, HotKeyStats, KeySource, find_hot_keys
from tests.aggregates.sketches.test_heavy_hitters import planted
from tests.kafka.streams import new_stream, new_view
from tests.server.metrics.test_metrics_route import metrics, value
from tests.server.server_thread import app_of_views
from tests.server.test_server import served
from tests.waiting import wait_until

payments = hr.Stream(
    "payments",
    schema="id string, card string, merchant string, at timestamp",
    id="id",
    key="card",
    time="at",
    partitions=4,
)


@hr.features(payments, by="merchant")
class MerchantFlow:
    payments = hr.count(windows="1h")


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="1h")


def found(whose: KeySource, cards: list[str], merchants: list[str], tasks: int = 4) -> list[HotKeyStats]:
    keys, now_us = StreamKeyCounts(payments, [("merchant",)]), time.time_ns() // 1000
    events = zip(cards, merchants, strict=True)
    records = [
        ConsumerRecord(payments.clean, 3, 0, now_us, card.encode(), json.dumps({"merchant": merchant}).encode(), None)
        for card, merchant in events
    ]
    for first in range(0, len(records), 1000):
        keys.count_records(records[first : first + 1000])
    return list(find_hot_keys(whose, {"payments": keys}, tasks, time.time_ns() // 1000))


def test_a_planted_hot_key_is_the_only_hot_one_and_its_bounds_hold_its_share() -> None:
    cards, even = planted(7), [f"m{number % 200}" for number in range(20_000)]
    truth = Counter(cards)
    for whose, told in ((KeySource((payments,)), None), (KeySource((payments,), CardSpend), "CardSpend")):
        keys = found(whose, cards, even)
        assert [(key.key, key.view, key.partition) for key in keys if key.is_hot] == [("the hot one", told, 3)]
        assert all(key.at_least <= truth[key.key] / len(cards) <= key.at_most for key in keys)
    assert not any(key.is_hot for key in found(KeySource((payments,), MerchantFlow), cards, even))


def test_a_hot_entity_of_a_view_by_another_column_is_in_no_one_partition() -> None:
    spread, hot = [f"c{number}" for number in range(20_000)], planted(8)
    (key,) = (key for key in found(KeySource((payments,), MerchantFlow), spread, hot) if key.is_hot)
    assert (key.source_name, key.key, key.partition) == ("MerchantFlow", "the hot one", None)


def test_what_is_hot_depends_on_how_many_share_the_work_and_takes_enough_events() -> None:
    cards = ["c1"] * 200 + [f"c{number}" for number in range(2, 802)]
    for tasks, is_hot in ((2, False), (3, True)):
        assert found(KeySource((payments,)), cards, cards, tasks)[0].is_hot is is_hot
    assert not found(KeySource((payments,)), cards[:999], cards[:999], 3)[0].is_hot


def test_with_enough_salt_nothing_is_hot_and_the_advice_names_enough() -> None:
    cards = planted(7)
    (hot,) = (key for key in found(KeySource((payments,), CardSpend), cards, cards) if key.is_hot)
    (said,) = HotKeyReport((hot,)).advice()
    assert "salt=4)" in said
    for salt, is_hot in ((2, True), (4, False)):
        keys = found(KeySource((payments,), replace(CardSpend, salt=salt)), cards, cards)
        assert any(key.is_hot for key in keys) is is_hot


def test_of_several_hot_keys_the_heaviest_is_told_what_to_do() -> None:
    merchants = ["m1"] * 700 + ["m2"] * 500 + [f"m{number}" for number in range(3, 803)]
    keys = found(KeySource((payments,), MerchantFlow), merchants, merchants)
    of_stream = found(KeySource((payments,)), merchants, merchants)
    assert [key.key for key in keys if key.is_hot] == ["m1", "m2"]
    assert [said.split()[:5] for said in HotKeyReport((*of_stream, *keys)).advice()] == [
        ["m1", "is", "35%", "of", "payments,"],
        ["m1", "is", "35%", "of", "MerchantFlow,"],
    ]


def test_a_key_is_shown_as_text_by_its_beginning() -> None:
    keys = ["\x1b[2J<script>", "long" * 50]
    shown = {key.key for key in found(KeySource((payments,)), keys, keys)}
    assert shown == {"\\x1b[2J<script>", ("long" * 50)[:MAX_KEY_CHARS] + "…"}


def test_uneven_partitions_without_a_hot_key_are_told_what_helps_them() -> None:
    key = HotKeyStats(("payments",), None, 1, "c1", 0.02, 0.02, 1.0, 0, 4, 1, is_hot=False)
    uneven, few = PartitionSkew("payments", 4, 5000, 2, 0.6), PartitionSkew("payments", 4, 500, 2, 0.6)
    (said,) = HotKeyReport((key,), (uneven,)).advice()
    assert said.startswith("Partition 2 of payments takes 2.4 times the mean")
    assert not [*HotKeyReport((key,), (few,)).advice()]


def test_a_report_is_read_as_it_was_written() -> None:
    key = HotKeyStats(("payments",), "CardSpend", 1, "c1", 0.3, 0.31, 12.5, 0, 4, 1, is_hot=True)
    report = HotKeyReport((key,), (PartitionSkew("payments", 4, 5000, 2, 0.6),))
    assert HotKeyReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_the_server_names_a_hot_key_and_its_metrics_do_not(broker: EmbeddedBroker, tmp_path: Path) -> None:
    app = app_of_views(view := new_view(new_stream(partitions=4)))
    stream = view.streams[0]
    ensure_topics(broker.address, app.streams, app.views)
    sent = [("secret-card", 1) if offset % 10 < 3 else (f"c{offset}", offset % 4) for offset in range(2000)]
    with Producer(broker.address) as producer:
        for offset, (key, partition) in enumerate(sent):
            producer.send(stream.name, b"{}", key=key, partition=partition)
            headers = [("headrace.offset", str(offset)), ("headrace.arrival", "0")]
            producer.send(stream.clean, b"{}", key=key, partition=partition, headers=headers)
    written = tmp_path / "app.py"
    written.write_text(
        "import headrace as hr\n"
        "taps = hr.Stream('taps', schema='id string, at timestamp', id='id', key='id', time='at')\n"
    )
    with served(app, broker.address) as ask:
        wait_until(lambda: len(ask("GET", "/hot").json["keys"]) > 0, 20, "the keys to be counted")
        told, seen = ask("GET", "/hot").json, metrics(ask)
        text = ask("GET", "/metrics").body.decode()
        said = CliRunner().invoke(main, ["hot", str(written), "--http", f"127.0.0.1:{ask.port}"])
    of_stream, of_view = (key for key in told["keys"] if key["rank"] == 1)
    for key, name in ((of_stream, None), (of_view, view.name)):
        assert (key["key"], key["view"], key["partition"], key["is_hot"]) == ("secret-card", name, 1, True)
        assert key["at_least"] == key["at_most"] == 0.3
    (topic,) = told["topics"]
    share = sum(partition == 1 for _, partition in sent) / len(sent)
    assert (topic["topic"], topic["records"], topic["busiest"], topic["share"]) == (stream.name, 2000, 1, share)
    assert value(seen, "hot_key_share", stream=stream.name, rank="1") == 0.3
    assert value(seen, "hot_entities", view=view.name) == 1
    assert value(seen, "partition_skew", topic=stream.name) == 4 * share
    assert "secret-card" not in text
    assert said.exit_code == 0, said.output
    assert f"secret-card is 30% of {stream.name}, all in partition 1" in said.output
    assert f"salt=4) and run headrace up APP --rebuild {stream.name}" in said.output
