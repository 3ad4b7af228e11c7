"""Positions know what is left of what was there at the start."""

from headrace.log.positions import Positions
from headrace.log.records import Partition, Record

ONE, TWO = Partition("t", 0), Partition("t", 1)


def record(partition: int, offset: int) -> Record:
    return Record("t", partition, offset, 0, None, None, None)


def test_nothing_is_caught_up_before_it_begins() -> None:
    positions = Positions()
    assert not positions.caught_up
    positions.take_on({}, {})
    assert positions.caught_up


def test_caught_up_is_having_handled_what_was_there_at_the_start() -> None:
    positions = Positions()
    positions.take_on({ONE: 0, TWO: 5}, {ONE: 2, TWO: 6})
    assert positions.remaining == 3
    positions.handled([record(0, 0), record(1, 5)])
    assert (positions.caught_up, positions.remaining) == (False, 1)
    positions.handled([record(0, 1), record(0, 2)])
    assert (positions.caught_up, positions.next) == (True, {ONE: 3, TWO: 6})


def test_the_end_of_a_partition_may_stand_behind_records_that_are_never_delivered() -> None:
    positions = Positions()
    positions.take_on({ONE: 0}, {ONE: 9})
    positions.handled([record(0, 6)])
    positions.at_end(ONE, 9)
    assert (positions.caught_up, positions.next) == (True, {ONE: 9})


def test_a_partition_given_up_is_not_waited_for() -> None:
    positions = Positions()
    positions.take_on({ONE: 0, TWO: 0}, {ONE: 1, TWO: 1})
    positions.handled([record(0, 0)])
    positions.give_up([TWO])
    assert (positions.caught_up, positions.next) == (True, {ONE: 1})
