import json
from pathlib import Path

from headrace.kafka.record import Partition
from headrace.spark.checkpoints.checkpoint_files import (
    committed_offsets,
    committed_partition_offsets,
    discard_unfinished_state,
    has_committed_batch,
    is_before_log_start,
    plan_first_batch,
    prepare_checkpoint,
    query_lag,
)


def checkpoint(folder: Path, committed: int, planned: int) -> Path:
    """A checkpoint as Spark leaves it: offsets of planned batches, commits of finished ones, and state."""
    for part, batches in (("offsets", planned), ("commits", committed)):
        (folder / part).mkdir(parents=True)
        for batch in range(batches):
            source = f'{{"taps":{{"0":{10 * batch + 10},"1":{batch}}}}}'
            (folder / part / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{source}')
    (folder / "state").mkdir()
    return folder


def places(*offsets: int, topic: str = "taps") -> dict[Partition, int]:
    return {Partition(topic, number): offset for number, offset in enumerate(offsets)}


def test_a_query_of_several_topics_stands_somewhere_in_each(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"taps":{"0":7,"1":2}}\n-\n{"rates":{"0":1}}')
    assert committed_partition_offsets(tmp_path) == places(7, 2) | places(1, topic="rates")


def test_a_query_stands_after_its_last_committed_batch(tmp_path: Path) -> None:
    assert committed_offsets(checkpoint(tmp_path, committed=2, planned=3)) == {0: 20, 1: 1}


def test_a_query_without_a_checkpoint_has_everything_before_it(tmp_path: Path) -> None:
    assert committed_offsets(tmp_path / "none") == {}
    assert query_lag(tmp_path / "none", start_offsets=places(5, 0), end_offsets=places(25, 3)) == 23


def test_lag_counts_what_is_still_there(tmp_path: Path) -> None:
    assert (
        query_lag(checkpoint(tmp_path, committed=1, planned=1), start_offsets=places(15, 0), end_offsets=places(25, 3))
        == 13
    )


def test_a_query_whose_place_is_no_longer_there_is_before_its_log(tmp_path: Path) -> None:
    stands = checkpoint(tmp_path, committed=1, planned=1)
    assert is_before_log_start(stands, start_offsets=places(11, 0))
    assert not is_before_log_start(stands, start_offsets=places(10, 0))
    assert not is_before_log_start(tmp_path / "none", start_offsets=places(5, 0))


def test_state_of_a_first_batch_that_never_committed_is_removed(tmp_path: Path) -> None:
    discard_unfinished_state(checkpoint(tmp_path, committed=0, planned=1))
    assert not (tmp_path / "state").exists()
    assert (tmp_path / "offsets" / "0").exists()


def test_the_draft_of_a_first_commit_is_removed(tmp_path: Path) -> None:
    checkpoint(tmp_path, committed=0, planned=0)
    for log in ("offsets", "commits"):
        (tmp_path / log / ".0.5e51a800.tmp").touch()
    discard_unfinished_state(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_committed_state_stays(tmp_path: Path) -> None:
    discard_unfinished_state(checkpoint(tmp_path, committed=1, planned=2))
    assert (tmp_path / "state").exists()


def test_a_first_batch_is_planned_once(tmp_path: Path) -> None:
    plan_first_batch(tmp_path, "payments.clean", [3, 7], {"conf": {}})
    first = (tmp_path / "offsets" / "0").read_text()
    assert first.splitlines()[-1] == '{"payments.clean": {"0": 3, "1": 7}}'
    assert not has_committed_batch(tmp_path)
    plan_first_batch(tmp_path, "payments.clean", [9, 9], {"conf": {}})
    discard_unfinished_state(tmp_path)
    assert (tmp_path / "offsets" / "0").read_text() == first


def test_a_moved_checkpoint_names_its_own_schema_files(tmp_path: Path) -> None:
    begun = checkpoint(tmp_path / "moved here", committed=1, planned=1)
    kept = begun / "state" / "0" / "_metadata" / "v2" / "0"
    kept.parent.mkdir(parents=True)
    stores = [{"storeName": "default", "stateSchemaFilePaths": ["file:/old/spend/state/0/_stateSchema/default/0_a"]}]
    kept.write_text(f"v2\n{json.dumps({'operatorInfo': {'operatorId': 0}, 'stateStoreInfo': stores})}")
    checksum = kept.with_name(".0.crc")
    checksum.write_text("of the old text")
    in_savepoint = tmp_path / "linked"
    in_savepoint.hardlink_to(kept)
    before = in_savepoint.read_text()

    prepare_checkpoint(begun)

    version, text = kept.read_text().split("\n")
    (store,) = json.loads(text)["stateStoreInfo"]
    assert version == "v2"
    assert store["stateSchemaFilePaths"] == [f"file:{begun}/state/0/_stateSchema/default/0_a"]
    assert not checksum.exists()
    assert in_savepoint.read_text() == before
    written = kept.stat().st_mtime_ns
    prepare_checkpoint(begun)
    assert kept.stat().st_mtime_ns == written
