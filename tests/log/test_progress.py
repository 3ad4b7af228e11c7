"""What is missing of an app: its gates, its derived streams, its views; a query that derives is taken for no gate."""

from dataclasses import asdict

import orjson
import pytest

import headrace as hr
from headrace.log.progress import (
    TOPIC,
    BridgeProgress,
    CaptureProgress,
    CheckProgress,
    DriftProgress,
    LandingProgress,
    OutboxProgress,
    OutcomesProgress,
    PartProgress,
    Progress,
    ProgressBoard,
    QualityProgress,
    QueryProgress,
    ScorerProgress,
    SinkProgress,
    WatchProgress,
)
from headrace.log.records import Record

taps = hr.Stream("taps", schema="id string, at timestamp", id="id", key="id", time="at")
abroad = hr.derive(taps, name="abroad")(lambda taps: taps)
NOW_US = 1_767_225_600_000_000


def board(*queries: QueryProgress) -> ProgressBoard:
    found = ProgressBoard()
    found.latest = {one.query: one for one in queries}
    return found


def progress(query: str, stream: str, *, derives: tuple[str, ...] = (), running: bool = True) -> QueryProgress:
    return QueryProgress(query, stream, (), "real-time", running, NOW_US, derives=derives)


GATES = [progress("taps.gate", "taps"), progress("abroad.gate", "abroad")]


def test_an_app_waits_until_its_streams_are_derived() -> None:
    missing = ["abroad is not derived yet"]
    assert board(*GATES).missing([taps, abroad], [], NOW_US) == missing
    stands = progress("abroad.derive", "abroad", derives=("abroad",), running=False)
    assert board(*GATES, stands).missing([taps, abroad], [], NOW_US) == missing
    runs = progress("abroad.derive", "abroad", derives=("abroad",))
    assert board(*GATES, runs).missing([taps, abroad], [], NOW_US) == []


def test_a_query_that_derives_a_stream_is_not_its_gate() -> None:
    runs = progress("abroad.derive", "abroad", derives=("abroad",))
    assert board(GATES[0], runs).missing([taps, abroad], [], NOW_US) == ["the gate of abroad does not run yet"]


REPORTS: list[Progress] = [
    GATES[0],
    CheckProgress("ById", 1, 2, {"exact": 2}),
    LandingProgress("silver/taps", 1, 2, 3, 0.5),
    PartProgress("lake", 1, "running", app="shop"),
    ScorerProgress("fraud", "host:1", 1, 0, [], {}, [], 0.0),
    SinkProgress("copies", "host:1", 1, {}, {}, 0, ""),
    OutboxProgress("shop", "host:1", 1, {}, {}, 0, 0.0, ""),
    BridgeProgress("taps", 1, 2, 3, ""),
    CaptureProgress("customers", 1, 2, ""),
    WatchProgress("shop", 1, 0, {}),
    OutcomesProgress("fraud", 1, True, 1, 0, [], [], 0.0, 0, 0),
    DriftProgress("fraud", 1, None, 1, 0, None, {}, {}, [], {}, 0),
    QualityProgress("fraud", 1, None, None),
]


def record(value: bytes, offset: int = 0) -> Record:
    return Record(TOPIC, 0, offset, 0, None, value, None)


@pytest.mark.parametrize("said", REPORTS, ids=lambda said: type(said).__name__)
def test_every_kind_of_report_is_read_as_it_was_written(said: Progress) -> None:
    found = ProgressBoard()
    found.apply([record(orjson.dumps(asdict(said)))])
    kept = [one for room in vars(found).values() for one in room.values()]
    assert kept == [said]


@pytest.mark.parametrize("value", [b"{", b"[]", b'"text"', b"{}", b'{"query": "q"}', b'{"part": 5}', b"\xff", b"null"])
def test_what_is_no_report_is_passed_over_and_the_next_one_counts(value: bytes) -> None:
    found = ProgressBoard()
    found.apply([record(value), record(orjson.dumps(asdict(GATES[0])))])
    assert found.latest == {GATES[0].query: GATES[0]}


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    found = ProgressBoard()
    found.apply([record(orjson.dumps(asdict(GATES[0]) | {"invented_later": 1}))])
    assert found.latest == {GATES[0].query: GATES[0]}
