"""What holds back a watermark is explained in a sentence that names the first cause."""

import time

import pytest

import headrace as hr
from headrace.kafka.consumers.consumer_lag import LagSnapshot, PartitionLag
from headrace.kafka.ledger import Ledger
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.models import OutcomesProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.metrics.lag_monitor import LogConsumers
from headrace.server.metrics.watermark_diagnosis import WatermarkDiagnosis, diagnose_watermarks
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import app_of_views

SECOND = 1_000_000
NOW_US = 1_000 * SECOND
payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")
labels = hr.Stream("labels", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at")


def fit(frame: object) -> object:
    return frame


AWAITED = hr.Labels(labels, value="fraud", within="1h")
fraud = hr.Model("fraud", on=payments, features=[new_view(payments)], train=fit, labels=AWAITED)


def tiles(running: bool = True, ago_s: int = 1) -> QueryProgress:
    return QueryProgress("payments.tiles-0", "payments", ("V",), "real-time", running, NOW_US - ago_s * SECOND)


def lag(query: str, seconds: float) -> PartitionLag:
    return PartitionLag(query, Partition("payments", 0), 9, seconds)


def moment(*lags: PartitionLag, **quiet_s: int) -> WatermarkDiagnosis:
    """Partitions p0, p1 … that have been quiet for so long; below 0 is since ever."""
    heard = {int(name[1:]): 0 if quiet < 0 else NOW_US - quiet * SECOND for name, quiet in quiet_s.items()}
    return WatermarkDiagnosis(NOW_US, LagSnapshot(lags), {"payments": heard})


@pytest.mark.parametrize(
    ("now", "said", "words"),
    [
        (moment(lag("payments.gate", 60), p0=90), tiles(running=False), "payments.tiles-0 does not run"),
        (moment(p0=0), tiles(ago_s=16), "payments.tiles-0 does not run"),
        (moment(lag("payments.gate", 40), p0=40), tiles(), "waits for the gate, which is 40 s behind"),
        (moment(lag("payments.tiles-0", 400), p0=0), tiles(), "is 7 min behind the gate"),
        (moment(), tiles(), "no events yet"),
        (moment(p0=-1, p1=-1), tiles(), "no events yet"),
        (moment(p0=40, p1=55, p2=-1), tiles(), "no events for 40 s"),
        (moment(p0=1, p3=40), tiles(), "partition 3 idle for 40 s"),
        (
            moment(p0=1, p1=31, p2=32, p3=33, p4=34),
            tiles(),
            "partition 1 idle for 31 s, partition 2 idle for 32 s, partition 3 idle for 33 s, and 1 more",
        ),
        (
            moment(lag("payments.gate", 4), p0=9, p1=29),
            tiles(),
            "nothing: it follows the newest event with each checkpoint",
        ),
    ],
)
def test_the_first_cause_is_named(now: WatermarkDiagnosis, said: QueryProgress, words: str) -> None:
    assert now.explain_watermark(said) == words


def outcomes(left: int = 0, running: bool = True) -> OutcomesProgress:
    return OutcomesProgress("fraud", NOW_US, running, 1, left, [], [], 0.0, 0, 0)


def test_outcomes_wait_for_the_slower_stream() -> None:
    slow = moment(lag("payments.gate", 6), lag("labels.gate", 40))
    assert (
        slow.explain_outcome_clock(fraud, outcomes()) == "waits for the slower stream labels, whose gate is 40 s behind"
    )
    assert moment().explain_outcome_clock(fraud, outcomes(7)) == "waits for the join, which has 7 records before it"
    assert moment().explain_outcome_clock(fraud, outcomes()) == "nothing: it moves with each step of the join"
    assert slow.explain_outcome_clock(fraud, outcomes(running=False)) == "the outcomes of fraud are not joined"


class Read:
    """Ledgers whose past has been read."""

    def __init__(self, **ledgers: Ledger) -> None:
        self.caught_up_ledgers = ledgers


def test_a_server_says_it_of_each_query_that_keeps_a_view() -> None:
    app = app_of_views(view := new_view(stream := new_stream()))
    ledger, board, now_us = Ledger(stream, {0: 0, 1: 0}), ProgressTable(), time.time_ns() // 1000
    for partition, ago_s in ((0, 1), (1, 50)):
        headers = [("headrace.offset", b"0"), ("headrace.arrival", b"5")]
        ledger.count_records(
            [ConsumerRecord(stream.clean, partition, 0, now_us - ago_s * SECOND, None, b"{}", headers)]
        )
    for number, at_us in enumerate((now_us - 60 * SECOND, now_us)):
        query = f"{stream.name}.tiles-{number}"
        board.put(QueryProgress(query, stream.name, (view.name,), "real-time", True, at_us))
    ledgers = Read(**{stream.name: ledger})
    readers = LogConsumers(app, board, ledgers, MemoryStoreReader(MemoryStore([view]), None))  # type: ignore[arg-type]
    assert diagnose_watermarks(readers, LagSnapshot(), now_us) == {
        f"{stream.name}.tiles-1": "partition 1 idle for 50 s"
    }
