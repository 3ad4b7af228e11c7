"""What holds back a watermark is said in words, and the cause that comes first is named."""

import time

import pytest

import headrace as hr
from headrace.log.lag import Behind, Lag
from headrace.log.ledger import Ledger
from headrace.log.progress import OutcomesProgress, ProgressBoard, QueryProgress
from headrace.log.records import Partition, Record
from headrace.serve.held import Moment, held
from headrace.serve.lagging import Readers
from headrace.store.memory import MemoryStore
from headrace.store.online import MemoryOnline
from tests.log.streams import new_stream, new_view
from tests.serve.serving import app_of_views

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


def lag(query: str, seconds: float) -> Lag:
    return Lag(query, Partition("payments", 0), 9, seconds)


def moment(*lags: Lag, **quiet_s: int) -> Moment:
    """Partitions p0, p1 … that have been quiet for so long; below 0 is since ever."""
    heard = {int(name[1:]): 0 if quiet < 0 else NOW_US - quiet * SECOND for name, quiet in quiet_s.items()}
    return Moment(NOW_US, Behind(lags), {"payments": heard})


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
def test_the_first_cause_is_named(now: Moment, said: QueryProgress, words: str) -> None:
    assert now.watermark(said) == words


def outcomes(left: int = 0, running: bool = True) -> OutcomesProgress:
    return OutcomesProgress("fraud", NOW_US, running, 1, left, [], [], 0.0, 0, 0)


def test_outcomes_wait_for_the_slower_stream() -> None:
    slow = moment(lag("payments.gate", 6), lag("labels.gate", 40))
    assert slow.clock(fraud, outcomes()) == "waits for the slower stream labels, whose gate is 40 s behind"
    assert moment().clock(fraud, outcomes(7)) == "waits for the join, which has 7 records before it"
    assert moment().clock(fraud, outcomes()) == "nothing: it moves with each step of the join"
    assert slow.clock(fraud, outcomes(running=False)) == "the outcomes of fraud are not joined"


class Read:
    """Ledgers whose past has been read."""

    def __init__(self, **ledgers: Ledger) -> None:
        self.read = ledgers


def test_a_server_says_it_of_each_query_that_keeps_a_view() -> None:
    app = app_of_views(view := new_view(stream := new_stream()))
    ledger, board, now_us = Ledger(stream, {0: 0, 1: 0}), ProgressBoard(), time.time_ns() // 1000
    for partition, ago_s in ((0, 1), (1, 50)):
        headers = [("headrace.offset", b"0"), ("headrace.arrival", b"5")]
        ledger.enter([Record(stream.clean, partition, 0, now_us - ago_s * SECOND, None, b"{}", headers)])
    for number, at_us in enumerate((now_us - 60 * SECOND, now_us)):
        query = f"{stream.name}.tiles-{number}"
        board.latest[query] = QueryProgress(query, stream.name, (view.name,), "real-time", True, at_us)
    ledgers = Read(**{stream.name: ledger})
    readers = Readers(app, board, ledgers, MemoryOnline(MemoryStore([view]), None))  # type: ignore[arg-type]
    assert held(readers, Behind(), now_us) == {f"{stream.name}.tiles-1": "partition 1 idle for 50 s"}
