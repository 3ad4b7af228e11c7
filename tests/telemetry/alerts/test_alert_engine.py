"""All alerts together: each notified once, grouped, silenced, and unchanged by a restart."""

from collections.abc import Mapping
from typing import Any

import headrace as hr
from headrace.declare.alerts.alert import WatchedValue
from headrace.kafka.record import ConsumerRecord
from headrace.telemetry.alerts.alert_engine import AlertEngine
from headrace.telemetry.alerts.alert_state import AlertState, Phase
from headrace.telemetry.alerts.alerts_topic import AlertStateTable, write_alert_state, write_silence
from headrace.telemetry.alerts.notifications import Notification
from headrace.telemetry.values.value_source import CombinedValues, ValueReading

SECOND = 1_000_000
lag = hr.Alert("lag", on=hr.metric("headrace_lag", stream="payments"), above=10)
late = hr.Alert("lag seconds", on=hr.metric("headrace_lag_seconds", stream="payments"), above=10)
other = hr.Alert("refunds", on=hr.metric("headrace_lag", stream="refunds"), above=10)


class Given:
    """Values as a test gives them."""

    def __init__(self, **values: float) -> None:
        self.values = {lag.on: values.get("lag"), late.on: values.get("late"), other.on: values.get("other")}

    def refresh(self, now_us: int) -> None:
        """Nothing is new."""

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:
        value = self.values.get(watched)
        return None if value is None else ValueReading(value, f"{value:g}")


class Topic:
    """Stands where the producer does: what is sent is what a board then hears."""

    def __init__(self) -> None:
        self.records: list[ConsumerRecord] = []

    def send(self, topic: str, event: Any, *, key: str) -> None:
        self.records.append(ConsumerRecord(topic, 0, len(self.records), 0, key.encode(), event, None))

    def board(self) -> AlertStateTable:
        board = AlertStateTable()
        board.apply(self.records)
        return board


class Watching:
    """An engine that looks every second, and can be killed at any moment."""

    def __init__(self) -> None:
        self.topic, self.now_us = Topic(), 0
        self.start()

    def start(self) -> None:
        kept = {name: one.state for name, one in self.topic.board().alert_records.items()}
        self.engine = AlertEngine([lag, late, other], kept, lambda *word: write_alert_state(self.topic, *word))  # type: ignore[arg-type]

    def look(self, silences: Mapping[str, int] | None = None, **values: float) -> list[Notification]:
        self.now_us += SECOND
        return self.engine.evaluate(Given(**values), silences or {}, self.now_us)

    def told(self, silences: Mapping[str, int] | None = None, **values: float) -> list[list[str]]:
        """The content of each delivered notification."""
        notifications = self.look(silences, **values)
        self.engine.mark_delivered(notifications)
        return [[f"{change.alert.name} {change.phase}" for change in one.changes] for one in notifications]


def test_what_fires_is_told_once_and_so_is_its_end() -> None:
    watching = Watching()
    assert watching.told(lag=11) == [["lag firing"]]
    assert watching.told(lag=12) == []
    assert watching.told(lag=9) == [["lag ok"]]
    assert watching.told(lag=9) == []


def test_alerts_of_one_stream_are_one_notification() -> None:
    watching = Watching()
    watching.told(late=11)
    assert watching.told(lag=11, late=0, other=99) == [["lag firing", "lag seconds ok"], ["refunds firing"]]


def test_a_silence_is_kept_and_what_is_left_at_its_end_is_told() -> None:
    watching = Watching()
    until = {"lag": 5 * SECOND}
    assert watching.told(until, lag=11, late=11) == [["lag seconds firing"]]
    assert [watching.told(until, lag=11, late=11) for _ in range(3)] == [[], [], []]
    assert watching.told(until, lag=11, late=11) == [["lag firing"]]


def test_what_came_and_went_in_a_silence_is_nobodys_business() -> None:
    watching = Watching()
    until = {"lag": 3 * SECOND}
    assert [watching.told(until, lag=value) for value in (11, 9, 9, 9)] == [[], [], [], []]


def test_an_end_within_a_silence_is_told_after_it() -> None:
    watching = Watching()
    assert watching.told(lag=11) == [["lag firing"]]
    assert watching.told({"lag": 3 * SECOND}, lag=9) == []
    assert watching.told({"lag": 3 * SECOND}, lag=9) == [["lag ok"]]


def test_a_restart_tells_nothing_twice_and_forgets_nothing() -> None:
    watching = Watching()
    watching.told(lag=11)
    watching.start()
    assert watching.told(lag=11) == []
    watching.start()
    assert watching.told(lag=9) == [["lag ok"]]


def test_what_nobody_was_told_of_before_a_crash_is_told_after_it() -> None:
    watching = Watching()
    assert len(watching.look(lag=11)) == 1  # handed out; the process dies before it is delivered
    assert watching.look(lag=11) == []
    watching.start()
    assert watching.told(lag=11) == [["lag firing"]]


def test_what_there_was_no_room_for_is_handed_out_again() -> None:
    watching = Watching()
    (first,) = watching.look(lag=11)
    watching.engine.requeue(first)
    assert watching.told(lag=11) == [["lag firing"]]


def test_an_end_that_comes_before_the_beginning_was_delivered_is_told_after_it() -> None:
    watching = Watching()
    first = watching.look(lag=11)
    assert watching.look(lag=9) == []
    watching.engine.mark_delivered(first)
    assert watching.told(lag=9) == [["lag ok"]]


def test_a_pending_alert_goes_on_waiting_after_a_restart_and_data_is_missed_from_then_on() -> None:
    topic = Topic()
    write_alert_state(topic, lag, AlertState(7, 8, Phase.PENDING, 11.0, None, (1, 2)), "11")  # type: ignore[arg-type]
    state = topic.board().alert_records["lag"].state
    assert (state.phase, state.since_us, state.fired_us) == (Phase.PENDING, 7, (1, 2))
    assert state.last_value_us > 1_700_000_000 * SECOND


def test_silences_are_read_from_the_topic_and_hostile_records_are_passed_over() -> None:
    topic = Topic()
    write_silence(topic, "auc drop", 99)  # type: ignore[arg-type]
    write_silence(topic, "lag", 7)  # type: ignore[arg-type]
    write_silence(topic, "lag", None)  # type: ignore[arg-type]
    for hostile in (b"no json", b"{}", b"[]", b'{"state": {"phase": "odd"}}', b'{"until_us": "soon"}', None):
        topic.send("headrace.alerts", hostile, key="alert odd")
        topic.send("headrace.alerts", hostile, key="silence odd")
    board = topic.board()
    assert (board.silences, board.alert_records) == ({"auc drop": 99}, {})


def test_an_alert_that_is_no_longer_declared_is_let_go_of() -> None:
    engine = AlertEngine([lag], {"gone": AlertState(0, 0, Phase.FIRING)}, lambda *_: None)
    assert engine.evaluate(Given(lag=1), {}, SECOND) == []
    assert engine.firing_count == 0


def test_the_first_that_knows_a_value_tells_it() -> None:
    values = CombinedValues([Given(lag=1), Given(lag=2, late=3)])
    assert [values.read(one.on, 0) for one in (lag, late, other)] == [ValueReading(1, "1"), ValueReading(3, "3"), None]
