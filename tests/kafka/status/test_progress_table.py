"""Status reports are read by kind; missing components of an app follow from the reports of its queries."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.alerting import AlertingProgress
from headrace.kafka.status.reports.connectors import CaptureProgress, OutboxProgress, SinkProgress, SourceProgress
from headrace.kafka.status.reports.lake import ConsistencyCheckProgress, IngestionProgress, MaintenanceProgress
from headrace.kafka.status.reports.models import DriftProgress, OutcomesProgress, QualityProgress, ScorerProgress
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.reports.progress_report import TAGS, ProgressReport
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.status.reports.report_types import REPORT_TYPES
from headrace.kafka.status.reports.untagged_reports import KIND_BY_FIELD, untagged_kind

taps = hr.Stream("taps", schema="id string, at timestamp", id="id", key="id", time="at")
abroad = hr.derive(taps, name="abroad")(lambda taps: taps)
NOW_US = 1_767_225_600_000_000


def board(*queries: QueryProgress) -> ProgressTable:
    found = ProgressTable()
    for one in queries:
        found.put(one)
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
    MaintenanceProgress("silver/taps", 1),
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
UNTAGGED_REPORTS = json.loads(Path(__file__).with_name("untagged_reports.json").read_text())  # as 0.1.0 wrote them


def record(value: bytes, offset: int = 0) -> ConsumerRecord:
    return ConsumerRecord(PROGRESS_TOPIC, 0, offset, 0, None, value, None)


def written(report: ProgressReport) -> ConsumerRecord:
    return record(orjson.dumps(report.to_json()))


def read(*records: ConsumerRecord) -> list[ProgressReport]:
    found = ProgressTable()
    found.apply(records)
    return [one for report_type in REPORT_TYPES.values() for one in found.latest(report_type)]


@pytest.mark.parametrize("said", REPORTS, ids=lambda said: type(said).__name__)
def test_every_kind_of_report_is_read_as_it_was_written(said: ProgressReport) -> None:
    assert read(written(said)) == [said]


def test_every_kind_of_report_is_tried_here() -> None:
    assert {type(said) for said in REPORTS} == set(REPORT_TYPES.values())
    assert {untagged_kind(one["value"]) for one in UNTAGGED_REPORTS} == set(KIND_BY_FIELD.values())


def test_a_report_says_its_kind_and_its_subject() -> None:
    said = {report.kind: report.to_json() for report in REPORTS}
    assert {kind: message["kind"] for kind, message in said.items()} == {kind: kind for kind in REPORT_TYPES}
    assert said["ingestion"]["subject"] == "silver/taps"
    assert said["part"]["subject"] == "shop lake"
    assert said["scorer"]["subject"] == "fraud host:1"


@pytest.mark.parametrize("recorded", UNTAGGED_REPORTS, ids=lambda recorded: recorded["key"])
def test_a_report_without_a_kind_is_read_and_its_key_and_fields_stay(recorded: dict[str, Any]) -> None:
    (said,) = read(record(orjson.dumps(recorded["value"])))
    assert said.key == recorded["key"]
    assert list(said.to_json().items())[len(TAGS) :] == [
        (name, tuple(value) if name in {"views", "derives"} else value) for name, value in recorded["value"].items()
    ]


def test_a_report_with_a_kind_takes_the_place_of_one_without() -> None:
    for recorded in UNTAGGED_REPORTS:
        (before,) = read(record(orjson.dumps(recorded["value"])))
        after = replace(before, at_us=before.at_us + 1)
        assert read(record(orjson.dumps(recorded["value"])), written(after)) == [after]


def test_the_latest_report_on_each_subject_counts() -> None:
    first, second = (SinkProgress("copies", copy, 1, {}, {}, 0, "") for copy in ("host:1", "host:2"))
    newer = replace(first, at_us=2)
    assert read(written(first), written(second), written(newer)) == [newer, second]


@pytest.mark.parametrize("value", [b"{", b"[]", b'"text"', b"{}", b'{"query": "q"}', b'{"part": 5}', b"\xff", b"null"])
def test_what_is_no_report_is_passed_over_and_the_next_one_counts(value: bytes) -> None:
    assert read(record(value), written(GATES[0])) == [GATES[0]]


@pytest.mark.parametrize("value", [b'{"kind": ["query"]}', b'{"kind": {}}', b'{"kind": "query"}', b'{"kind": 5}'])
def test_a_kind_that_is_none_and_a_report_without_its_fields_are_passed_over(value: bytes) -> None:
    assert read(record(value), written(GATES[0])) == [GATES[0]]


def test_a_kind_of_a_newer_version_is_passed_over_with_one_line_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    newer = record(orjson.dumps({"kind": "cutover", "subject": "taps", "query": "taps.gate", "at_us": NOW_US}))
    with caplog.at_level(logging.DEBUG, "headrace.log"):
        assert read(newer, written(GATES[0]), newer) == [GATES[0]]
    (line,) = [entry for entry in caplog.records if "cutover" in entry.getMessage()]
    assert line.levelno == logging.DEBUG


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    assert read(record(orjson.dumps(GATES[0].to_json() | {"invented_later": 1}))) == [GATES[0]]
