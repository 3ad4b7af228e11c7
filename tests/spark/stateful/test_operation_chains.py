"""The progress of an operation, as its downstream operations see it."""

import json
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.spark.stateful.keyed_operator import BucketProcessor
from headrace.spark.stateful.operation_chains import OperationChain
from headrace.spark.stateful.operation_versions import plan_operation_version
from tests.spark.echo_operation import SECOND, Echo, micros, operation_of, payments
from tests.spark.spark_state import Bucket
from tests.spark.stateful.test_keyed_operator import history, keyed, said


def commit(checkpoint: Path, watermark_ms: int) -> None:
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir(parents=True, exist_ok=True)
        (checkpoint / log / "0").write_text(f"v1\n{json.dumps({'batchWatermarkMs': watermark_ms})}")


def known_us(folder: Path, watermark_ms: int) -> int:
    operation = operation_of("echo", [payments("a")], Echo())
    run = plan_operation_version(operation, folder)
    commit(run.checkpoint(folder), watermark_ms)
    return OperationChain("nowhere", folder, {"echo": run}).clock_us(operation)


def test_an_operation_that_has_not_begun_has_come_nowhere(tmp_path: Path) -> None:
    operation = operation_of("echo", [payments("a")], Echo())
    assert (
        OperationChain("nowhere", tmp_path, {"echo": plan_operation_version(operation, tmp_path)}).clock_us(operation)
        == 0
    )
    assert known_us(tmp_path, 0) == 0


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_what_is_made_after_a_clock_is_known_no_earlier_than_that_clock_is_told(seed: int, count: int) -> None:
    dice, events = random.Random(seed), history(seed, count, SECOND)
    bucket, told_us = Bucket(BucketProcessor(keyed(dice.choice([7, 300_000, SECOND])))), 0
    with tempfile.TemporaryDirectory() as folder:
        while events:
            taken = events[: dice.randint(0, 3)]
            events = events[len(taken) :]
            clock_us = min([one.arrival_us for one in (*taken, *events)], default=0) - dice.choice([0, 1000, 400_000])
            for row in bucket.batch([said(one) for one in taken], clock_us // 1000):
                known = micros(json.loads(row["value"])["known_at"])
                assert known >= told_us
            told_us = max(told_us, known_us(Path(folder), clock_us // 1000))
