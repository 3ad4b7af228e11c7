"""What a gate knows of schemas grows, is kept, and changes only where there is news."""

from pathlib import Path

from headrace.log.schemas.known import Known, as_text, read_known
from headrace.log.schemas.registry import Registered

ONE, TWO = Registered(1, "AVRO", "{}"), Registered(2, "AVRO", "[]", has_references=True)


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    known = Known({1: ONE, 2: TWO, 9: None}, frozenset({1, 2}))
    (tmp_path / "kept").write_text(as_text(known))
    assert read_known(tmp_path / "kept") == known
    assert read_known(tmp_path / "none") == Known()


def test_a_plan_changes_only_with_news() -> None:
    known = Known({1: ONE, 9: None})
    assert known.and_({1: ONE}, [1]).schemas is known.schemas
    assert known.and_({1: None}).found == (ONE,)
    assert known.and_({2: TWO}).schemas is not known.schemas
    # An id that was unknown may come to be known, never the other way about.
    assert known.and_({9: Registered(9, "AVRO", "{}")}).missing == ()


def test_after_many_unknown_ids_nobody_asks_for_more() -> None:
    assert not Known(dict.fromkeys(range(Known.MANY))).are_enough
    assert Known(dict.fromkeys(range(Known.MANY + 1))).are_enough
