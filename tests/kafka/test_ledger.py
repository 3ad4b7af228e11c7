"""The ledger balances, whatever is replayed, reordered or deleted."""

from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.ledger import Ledger, LedgerConsumer, LedgerCounts
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics
from tests.kafka.streams import new_stream
from tests.waiting import wait_until

STREAM = hr.Stream(
    "payments",
    schema="id string, card string, at timestamp",
    id="id",
    key="card",
    time="at",
    late=hr.Late("2m", then="drop"),
)
FATES = {"clean": STREAM.clean, "late": STREAM.late_topic, "dead": STREAM.dead, "dropped": STREAM.dropped}


def fate(
    name: str, raw_offset: int, partition: int = 0, reason: str = "not-json: the value is not JSON"
) -> ConsumerRecord:
    headers = [("headrace.offset", str(raw_offset).encode()), ("headrace.arrival", b"0")]
    if name == "dead":
        headers.append(("headrace.reason", reason.encode()))
    return ConsumerRecord(FATES[name], partition, 0, 0, None, None, headers)


def test_what_the_gate_has_not_come_to_is_pending() -> None:
    ledger = Ledger(STREAM, {})
    ledger.update_raw_ends({0: 5, 1: 2})
    ledger.count_records([fate("clean", 0), fate("late", 1), fate("dead", 0, partition=1), fate("dropped", 2)])
    assert ledger.counts() == LedgerCounts(7, 1, 1, 1, 1, 3, {"not-json": 1})


def test_a_replay_is_not_counted_twice() -> None:
    ledger = Ledger(STREAM, {})
    ledger.update_raw_ends({0: 3})
    ledger.count_records([fate("clean", 0), fate("clean", 1), fate("clean", 0), fate("clean", 1), fate("clean", 2)])
    assert ledger.counts() == LedgerCounts(3, 3, 0, 0, 0, 0, {})


def test_dead_letters_are_counted_by_the_code_of_their_reason() -> None:
    ledger = Ledger(STREAM, {})
    reasons = ["failed-check: amount >= 0", "failed-check: amount >= 0", "missing-id: column id is absent or null"]
    ledger.count_records([fate("dead", offset, reason=reason) for offset, reason in enumerate(reasons)])
    assert ledger.counts().reasons == {"failed-check": 2, "missing-id": 1}


def test_records_the_raw_topic_no_longer_has_are_not_counted() -> None:
    ledger = Ledger(STREAM, {0: 100})
    ledger.update_raw_ends({0: 103})
    ledger.count_records([fate("clean", 98), fate("clean", 99), fate("clean", 100), fate("late", 101)])
    assert ledger.counts() == LedgerCounts(3, 1, 1, 0, 0, 1, {})


def test_a_fate_read_before_the_raw_end_is_asked_for_has_arrived_too() -> None:
    ledger = Ledger(STREAM, {})
    ledger.update_raw_ends({0: 1})
    ledger.count_records([fate("clean", 0), fate("clean", 1), fate("clean", 2)])
    assert ledger.counts() == LedgerCounts(3, 3, 0, 0, 0, 0, {})


def test_records_the_gate_did_not_write_are_passed_over() -> None:
    ledger = Ledger(STREAM, {})
    ledger.count_records([ConsumerRecord(STREAM.clean, 0, 0, 0, b"k", b"{}", None)])
    assert ledger.counts().arrived == 0


runs = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


@given(routed=st.lists(st.sampled_from(sorted(FATES)), max_size=40), runs=runs, begin=st.integers(0, 10))
def test_the_account_balances_after_any_crash(routed: list[str], runs: list[tuple[int, int]], begin: int) -> None:
    ledger = Ledger(STREAM, {0: begin})
    ledger.update_raw_ends({0: max(begin, len(routed))})
    arrived, position, furthest = max(0, len(routed) - begin), 0, 0
    for rewound, written in runs:
        position = max(0, position - rewound)
        records = [fate(name, offset) for offset, name in enumerate(routed)][position : position + written]
        ledger.count_records(records)
        position += len(records)
        furthest = max(furthest, position)
        account = ledger.counts()
        assert account.arrived == account.clean + account.late + account.dead + account.dropped + account.pending
        assert account.arrived == arrived
        assert account.pending == arrived - max(0, furthest - begin)


def test_a_ledger_follows_the_gates_topics(broker: EmbeddedBroker) -> None:
    stream = new_stream()
    ensure_topics(broker.address, [stream])
    with LedgerConsumer(broker.address, stream) as ledger, Producer(broker.address) as producer:
        for offset in range(10):
            producer.send(stream.name, {"id": str(offset)}, partition=0)
            topic = stream.clean if offset % 2 else stream.late_topic
            producer.send(topic, b"{}", partition=0, headers=[("headrace.offset", str(offset))])
        producer.send(stream.name, b"not yet seen by the gate", partition=1)
        producer.flush()
        ledger.ledger.update_raw_ends({0: 10, 1: 1})
        account = LedgerCounts(11, 5, 5, 0, 0, 1, {})
        wait_until(lambda: ledger.ledger.counts() == account, 20, "all fates to be read")
        assert ledger.ledger.next_raw_offsets() == {
            0: 10,
            1: 0,
            **{n: 0 for n in ledger.ledger.next_raw_offsets() if n > 1},
        }


def test_the_gate_has_come_as_far_as_the_last_fate_of_a_partition() -> None:
    ledger = Ledger(STREAM, {0: 3, 1: 7})
    assert ledger.next_raw_offsets() == {0: 3, 1: 7}
    ledger.count_records([fate("clean", 5), fate("dead", 8), fate("late", 6), fate("clean", 2)])
    assert ledger.next_raw_offsets() == {0: 9, 1: 7}
