"""What is missing of an app: its gates, its derived streams, its views; a query that derives is taken for no gate."""

from dataclasses import asdict

import orjson
import pytest

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import (
    PROGRESS_TOPIC,
    AlertingProgress,
    CaptureProgress,
    ConsistencyCheckProgress,
    DriftProgress,
    IngestionProgress,
    OutboxProgress,
    OutcomesProgress,
    PartProgress,
    ProgressReport,
    ProgressTable,
    QualityProgress,
    QueryProgress,
    ScorerProgress,
    SinkProgress,
    SourceProgress,
)

taps = hr.Stream("taps", schema="id string, at timestamp", id="id", key="id", time="at")
abroad = hr.derive(taps, name="abroad")(lambda taps: taps)
NOW_US = 1_767_225_600_000_000


def board(*queries: QueryProgress) -> ProgressTable:
    found = ProgressTable()
    found.queries = {one.query: one for one in queries}
    return found


def progress(query: str, stream: str, *, derives: tuple[str, ...] = (), running: bool = True) -> QueryProgress:
    return QueryProgress(query, stream, (), "real-time", running, NOW_US, derives=derives)


GATES = [progress("taps.gate", "taps"), progress("abroad.gate", "abroad")]


def test_an_app_waits_until_its_streams_are_derived() -> None:
    missing = ["abroad is not derived yet"]
    assert board(*GATES).missing_queries([taps, abroad], [], NOW_US) == missing
    stands = progress("abroad.derive", "abroad", derives=("abroad",), running=False)
    assert board(*GATES, stands).missing_queries([taps, abroad], [], NOW_US) == missing
    runs = progress("abroad.derive", "abroad", derives=("abroad",))
    assert board(*GATES, runs).missing_queries([taps, abroad], [], NOW_US) == []


def test_a_query_that_derives_a_stream_is_not_its_gate() -> None:
    runs = progress("abroad.derive", "abroad", derives=("abroad",))
    assert board(GATES[0], runs).missing_queries([taps, abroad], [], NOW_US) == ["the gate of abroad does not run yet"]


REPORTS: list[ProgressReport] = [
    GATES[0],
    ConsistencyCheckProgress("ById", 1, 2, {"exact": 2}),
    IngestionProgress("silver/taps", 1, 2, 3, 0.5),
    PartProgress("lake", 1, "running", app="shop"),
    ScorerProgress("fraud", "host:1", 1, 0, [], {}, [], 0.0),
    SinkProgress("copies", "host:1", 1, {}, {}, 0, ""),
    OutboxProgress("shop", "host:1", 1, {}, {}, 0, 0.0, ""),
    SourceProgress("taps", 1, 2, 3, ""),
    CaptureProgress("customers", 1, 2, ""),
    AlertingProgress("shop", 1, 0, {}),
    OutcomesProgress("fraud", 1, True, 1, 0, [], [], 0.0, 0, 0),
    DriftProgress("fraud", 1, None, 1, 0, None, {}, {}, [], {}, 0),
    QualityProgress("fraud", 1, None, None),
]


def record(value: bytes, offset: int = 0) -> ConsumerRecord:
    return ConsumerRecord(PROGRESS_TOPIC, 0, offset, 0, None, value, None)


@pytest.mark.parametrize("said", REPORTS, ids=lambda said: type(said).__name__)
def test_every_kind_of_report_is_read_as_it_was_written(said: ProgressReport) -> None:
    found = ProgressTable()
    found.apply([record(orjson.dumps(asdict(said)))])
    kept = [one for room in vars(found).values() for one in room.values()]
    assert kept == [said]


@pytest.mark.parametrize("value", [b"{", b"[]", b'"text"', b"{}", b'{"query": "q"}', b'{"part": 5}', b"\xff", b"null"])
def test_what_is_no_report_is_passed_over_and_the_next_one_counts(value: bytes) -> None:
    found = ProgressTable()
    found.apply([record(value), record(orjson.dumps(asdict(GATES[0])))])
    assert found.queries == {GATES[0].query: GATES[0]}


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    found = ProgressTable()
    found.apply([record(orjson.dumps(asdict(GATES[0]) | {"invented_later": 1}))])
    assert found.queries == {GATES[0].query: GATES[0]}
