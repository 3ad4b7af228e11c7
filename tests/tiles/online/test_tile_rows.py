import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates.partial import StoredObject
from headrace.tiles.layout import EVENT_COUNT, START, HopLayout, hop_layouts
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import FeatureTile
from tests.tiles.views import MINUTE_US, VIEWS

LAYOUTS: list[HopLayout] = [hop_layouts(view)[0] for view in VIEWS]
HISTORIES = st.lists(st.tuples(st.integers(-5, 60), st.integers(1, 9)), max_size=40)


def tile(layout: HopLayout, minute: int, n: int) -> FeatureTile:
    """A tile whose every part depends on its minute and its n."""
    row = layout.row_struct.pack(minute * MINUTE_US, n, minute * MINUTE_US + n, 0, *[n] * (layout.width - 4))
    stored: tuple[StoredObject, ...] = tuple((minute, "id", n) for _ in layout.object_names)
    return FeatureTile(row, stored)


def content(rows: TileRows) -> list[tuple[int, int, tuple[StoredObject | None, ...]]]:
    copied, objects = rows.rows_between(-(2**62), 2**62)
    unpacked = list(rows.layout.row_struct.iter_unpack(copied))
    return [
        (row[START] // MINUTE_US, row[EVENT_COUNT], stored)
        for row, stored in zip(unpacked, objects or [()] * len(unpacked), strict=True)
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_order_and_any_replay_end_with_the_greatest_n_of_each_start(layout: HopLayout) -> None:
    @settings(max_examples=200, deadline=None)
    @given(history=HISTORIES)
    def check(history: list[tuple[int, int]]) -> None:
        rows = TileRows(layout)
        for minute, n in history:
            rows.apply(tile(layout, minute, n))
        greatest = {minute: max(n for m, n in history if m == minute) for minute, _ in history}
        assert content(rows) == [(m, n, tile(layout, m, n).objects) for m, n in sorted(greatest.items())]

    check()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reader_never_sees_n_go_down(layout: HopLayout) -> None:
    @settings(max_examples=100, deadline=None)
    @given(history=HISTORIES)
    def check(history: list[tuple[int, int]]) -> None:
        rows = TileRows(layout)
        before: dict[int, int] = {}
        for minute, n in history:
            assert rows.apply(tile(layout, minute, n)) == max(0, n - before.get(minute, 0))
            now = {minute: n for minute, n, _ in content(rows)}
            assert all(now[minute] >= n for minute, n in before.items())
            before = now

    check()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_expired_tiles_are_those_that_start_before_a_time(layout: HopLayout) -> None:
    rows = TileRows(layout)
    for minute in (3, 1, 2, 5):
        rows.apply(tile(layout, minute, 1))
    assert rows.expire(2 * MINUTE_US) == 1
    assert [minute for minute, _, _ in content(rows)] == [2, 3, 5]
    assert rows.expire(2 * MINUTE_US + 1) == 1
    assert rows.expire(60 * MINUTE_US) == 2
    assert len(rows) == 0
    assert rows.expire(60 * MINUTE_US) == 0


def test_a_window_leaves_out_its_beginning_and_takes_in_its_end() -> None:
    layout = LAYOUTS[0]
    rows = TileRows(layout)
    for minute in range(5):
        rows.apply(tile(layout, minute, 1))
    copied, _ = rows.rows_between(1 * MINUTE_US, 3 * MINUTE_US)
    assert [row[START] // MINUTE_US for row in layout.row_struct.iter_unpack(copied)] == [2, 3]
    assert rows.rows_between(10 * MINUTE_US, 20 * MINUTE_US) == (bytearray(), [])


def test_a_reader_in_another_thread_sees_whole_rows() -> None:
    layout = LAYOUTS[1]
    rows = TileRows(layout)
    done = threading.Event()

    def write() -> None:
        for n in range(1, 400):
            for minute in (n % 7, 30, 3):
                rows.apply(tile(layout, minute, n))
            rows.expire((n % 3) * MINUTE_US)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        for minute, n, stored in content(rows):
            assert stored == tile(layout, minute, n).objects
    writer.join()
