"""A changed function resumes from its checkpoint; changed parents or state are rejected with the reason."""

from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.declare.operations.derived_stream import FunctionDerivation
from headrace.errors import DeclarationError
from headrace.spark.derived_streams.checkpoint_compatibility import require_compatible_checkpoint
from headrace.spark.derived_streams.derived_query import LaneDecision, StreamFunction
from headrace.spark.execution.lanes import Lane

SCHEMA = "id string, at timestamp"
one, other = (hr.Stream(name, schema=SCHEMA, id="id", key="id", time="at") for name in ("one", "other"))
FAST = LaneDecision(Lane.REAL_TIME, "filters", keeps_state=False)
SLOW = LaneDecision(Lane.MICRO_BATCH, "a Python UDF", keeps_state=False)
KEEPS = LaneDecision(Lane.MICRO_BATCH, "an aggregate", keeps_state=True)


def function(*parents: hr.Stream) -> StreamFunction:
    def same(*frames: Any) -> Any:
        return frames[0]

    stream = hr.derive(*parents, name="it", schema=SCHEMA, id="id", key="id", time="at")(same)
    assert isinstance(stream.made_by, FunctionDerivation)
    return StreamFunction(stream.made_by, stream)


def begin(checkpoint: Path) -> None:
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "commits" / "0").write_text("v1\n{}")


def test_a_function_may_change_its_lane_and_what_it_does(tmp_path: Path) -> None:
    checkpoint = tmp_path / "derive"
    require_compatible_checkpoint(function(one), FAST, checkpoint)
    begin(checkpoint)
    require_compatible_checkpoint(function(one), SLOW, checkpoint)
    require_compatible_checkpoint(function(one), FAST, checkpoint)


def test_other_parents_or_state_are_refused_once_it_has_begun(tmp_path: Path) -> None:
    checkpoint = tmp_path / "derive"
    require_compatible_checkpoint(function(one, other), FAST, checkpoint)
    require_compatible_checkpoint(function(one), FAST, checkpoint)
    begin(checkpoint)
    with pytest.raises(DeclarationError, match=r"it read one\.clean and reads one\.clean and other\.clean now"):
        require_compatible_checkpoint(function(one, other), FAST, checkpoint)
    with pytest.raises(
        DeclarationError,
        match=r"test_checkpoint_compatibility[.]py:\d+: it: it kept nothing and keeps an aggregate now",
    ):
        require_compatible_checkpoint(function(one), KEEPS, checkpoint)
