"""The catch-up state knows how many of the records present at the start are still unread."""

from headrace.kafka.consumers.catch_up_state import CatchUpState
from headrace.kafka.record import ConsumerRecord, Partition

ONE, TWO = Partition("t", 0), Partition("t", 1)


def record(partition: int, offset: int) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, None, None, None)


def test_nothing_is_caught_up_before_it_begins() -> None:
    positions = CatchUpState()
    assert not positions.is_caught_up
    positions.add_partitions({}, {})
    assert positions.is_caught_up


def test_caught_up_is_having_handled_what_was_there_at_the_start() -> None:
    positions = CatchUpState()
    positions.add_partitions({ONE: 0, TWO: 5}, {ONE: 2, TWO: 6})
    assert positions.remaining_count == 3
    positions.advance_past([record(0, 0), record(1, 5)])
    assert (positions.is_caught_up, positions.remaining_count) == (False, 1)
    positions.advance_past([record(0, 1), record(0, 2)])
    assert (positions.is_caught_up, positions.next_offsets) == (True, {ONE: 3, TWO: 6})


def test_the_end_of_a_partition_may_stand_behind_records_that_are_never_delivered() -> None:
    positions = CatchUpState()
    positions.add_partitions({ONE: 0}, {ONE: 9})
    positions.advance_past([record(0, 6)])
    positions.mark_end(ONE, 9)
    assert (positions.is_caught_up, positions.next_offsets) == (True, {ONE: 9})


def test_a_partition_given_up_is_not_waited_for() -> None:
    positions = CatchUpState()
    positions.add_partitions({ONE: 0, TWO: 0}, {ONE: 1, TWO: 1})
    positions.advance_past([record(0, 0)])
    positions.remove_partitions([TWO])
    assert (positions.is_caught_up, positions.next_offsets) == (True, {ONE: 1})
