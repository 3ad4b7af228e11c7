"""Keys in paged state are found where they were put, whatever their number and size, and no page is much too full."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.stateful.paged_state import PAGE_BYTES, KeyStateEntry, PagedState, page_number
from tests.spark.spark_state import MapState, ValueState


class Handle:
    def __init__(self) -> None:
        self.rows, self.size = MapState(), ValueState()

    def getMapState(self, *_: str) -> MapState:  # noqa: N802
        return self.rows

    def getValueState(self, *_: str) -> ValueState:  # noqa: N802
        return self.size


def changes() -> st.SearchStrategy[list[dict[str, int | None]]]:
    """Calls, each of which puts keys of some sizes, or forgets them."""
    keys = st.integers(0, 60).map(lambda number: f'["c{number}"]')
    sizes = st.one_of(st.none(), st.integers(0, 300), st.just(3 * PAGE_BYTES))
    return st.lists(st.dictionaries(keys, sizes, max_size=25), max_size=12)


@given(changes())
def test_what_was_put_last_is_there(calls: list[dict[str, int | None]]) -> None:
    handle, wanted = Handle(), dict[str, KeyStateEntry]()
    shelves = PagedState(handle)  # type: ignore[arg-type]
    for call in calls:
        shelves.open()
        for key in call:
            assert shelves.get(key) == wanted.get(key)
        for key, size in call.items():
            kept = None if size is None else KeyStateEntry(len(wanted), "x" * size)
            shelves.put(key, kept)
            wanted = {name: one for name, one in wanted.items() if name != key} | ({} if kept is None else {key: kept})
        shelves.close()
    shelves.open()
    assert {key: shelves.get(key) for key in wanted} == wanted
    stored = [key for row in handle.rows.rows.values() for key in orjson.loads(row[0])]
    assert sorted(stored) == sorted(wanted), "each key is on one shelf, and an empty shelf is no row"


def test_many_small_keys_share_shelves_and_great_ones_do_not() -> None:
    small, great = Handle(), Handle()
    for handle, size in ((small, 100), (great, 3 * PAGE_BYTES)):
        shelves = PagedState(handle)  # type: ignore[arg-type]
        for _ in range(8):  # shelves are made some at a time
            shelves.open()
            for number in range(200):
                shelves.put(f"c{number}", KeyStateEntry(0, "x" * size))
            shelves.close()
    assert 8 <= len(small.rows.rows) <= 40, "200 keys of 100 bytes are ten shelves full"
    assert max(len(orjson.loads(row[0])) for row in great.rows.rows.values()) <= 4


@given(st.text(), st.integers(1, 1000))
def test_one_more_shelf_takes_keys_of_one_other_only(key: str, count: int) -> None:
    before, after = page_number(key, count), page_number(key, count + 1)
    assert after in {before, count}
    assert 0 <= after <= count
