"""Which rows are blamed for a function's exception, and how they are stored beside the checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.declare.operations.derived_stream import FunctionDerivation
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.spark.derived_streams.derived_query import StreamFunction
from headrace.spark.derived_streams.poison_records import (
    FunctionFailed,
    FunctionTrial,
    PoisonRecord,
    PoisonRecordHandler,
)

SCHEMA = "id string, at timestamp"
left, right = (hr.Stream(name, schema=SCHEMA, id="id", key="id", time="at") for name in ("left", "right"))


def function(*parents: hr.Stream) -> StreamFunction:
    stream = hr.derive(*parents, name="it", schema=SCHEMA, id="id", key="id", time="at")(lambda *frames: frames[0])
    assert isinstance(stream.made_by, FunctionDerivation)
    return StreamFunction(stream.made_by, stream)


def rows(stream: hr.Stream, count: int) -> list[ConsumerRecord]:
    return [ConsumerRecord(stream.clean, 0, number, 0, b"k", b"{}", None) for number in range(count)]


@dataclass(frozen=True)
class Told(FunctionTrial):
    """Raises if its rows contain all indices of any of these sets."""

    together: tuple[frozenset[str], ...] = ()

    def try_rows(self, rows: Sequence[ConsumerRecord]) -> str | None:
        given = {row.location for row in rows}
        return next((f"no {sorted(one)}" for one in self.together if one <= given), None)


def blamed(parents: Sequence[hr.Stream], *together: set[str]) -> list[str]:
    nothing: Any = None
    trial = Told(nothing, function(*parents), tuple(map(frozenset, together)))
    return [
        one.record.location
        for one in trial.find_poison_records([row for parent in parents for row in rows(parent, 20)])
    ]


def test_rows_that_raise_alone_are_blamed() -> None:
    assert blamed([left], {"left.clean-0@3"}, {"left.clean-0@17"}) == ["left.clean-0@3", "left.clean-0@17"]
    assert blamed([left, right], {"left.clean-0@3"}, {"right.clean-0@5"}) == ["left.clean-0@3", "right.clean-0@5"]


def test_of_two_that_raise_together_one_side_is_blamed() -> None:
    pairs = [{"left.clean-0@3", "right.clean-0@5"}, {"left.clean-0@4", "right.clean-0@5"}]
    assert blamed([left, right], *pairs) == ["left.clean-0@3", "left.clean-0@4"]
    assert blamed([left, right], {"right.clean-0@1"}, *pairs) == ["right.clean-0@1", "left.clean-0@3", "left.clean-0@4"]


def test_nobody_is_blamed_for_what_rows_of_one_stream_raise_together() -> None:
    assert blamed([left], {"left.clean-0@3", "left.clean-0@4"}) == []
    assert blamed([left, right], {"left.clean-0@3", "left.clean-0@4"}) == []


def test_a_function_that_raises_without_rows_is_to_blame_itself() -> None:
    nothing: Any = None
    with pytest.raises(FunctionFailed, match="without any row"):
        Told(nothing, function(left), (frozenset(),)).require_runnable()


def commit(checkpoint: Path, offset: int) -> None:
    for folder, text in (("commits", "v1\n{}"), ("offsets", f'v1\n{{}}\n{{"left.clean":{{"0":{offset}}}}}')):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / folder / "0").write_text(text)


def test_places_are_left_out_until_they_are_committed(tmp_path: Path) -> None:
    aside = PoisonRecordHandler(function(left), "nowhere:1", tmp_path / "derive")
    assert aside.skipped_offsets() == {}
    aside._save_skipped_offsets([PoisonRecord(row, "no") for row in rows(left, 8)[6:]])
    assert aside.skipped_offsets() == {Partition("left.clean", 0): frozenset({6, 7})}
    commit(aside.checkpoint, 7)
    aside._save_skipped_offsets([PoisonRecord(rows(left, 12)[11], "no")])
    assert aside.skipped_offsets() == {Partition("left.clean", 0): frozenset({7, 11})}
