"""Which components of an app are down, by the age and content of their last status reports."""

from dataclasses import replace

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.kafka.status.app_status import PART, QUERY, TABLE, Outage, build_app_status
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.connectors import SinkProgress, SourceProgress
from headrace.kafka.status.reports.lake import IngestionProgress, MaintenanceProgress
from headrace.kafka.status.reports.models import ScorerProgress
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.reports.queries import QueryProgress

NOW_US = 1_767_225_600_000_000
SECOND_US = 1_000_000
taps = hr.Stream("taps", schema="id string, at timestamp", id="id", key="id", time="at")
abroad = hr.derive(taps, name="abroad")(lambda taps: taps)


@hr.features(taps, by="id")
class ById:
    n = hr.count(windows="1h")


APP = App("shop", (taps, abroad), (ById,))
GATE = QueryProgress("taps.gate", "taps", (), "real-time", True, NOW_US)
TILES = QueryProgress("taps.tiles-1", "taps", ("ById",), "real-time", True, NOW_US)
DERIVE = QueryProgress("abroad.derive", "taps", (), "micro-batch", True, NOW_US, derives=("abroad",))
LAKE = PartProgress("lake", NOW_US, "running", app="shop")
STREAM = PartProgress("stream", NOW_US, "running", app="shop")
TABLE_OF_TAPS = IngestionProgress("silver/taps", NOW_US, 10, 5, 0.1, "taps.clean")


def board(*said: QueryProgress | PartProgress | IngestionProgress) -> ProgressTable:
    found = ProgressTable()
    for one in said:
        found.put(one)
    return found


def outages(*said: QueryProgress | PartProgress | IngestionProgress) -> list[Outage]:
    return [*build_app_status(APP, board(*said), NOW_US).outages]


def test_nothing_is_down_while_everything_says_that_it_runs() -> None:
    assert outages(GATE, TILES, DERIVE, LAKE, STREAM, TABLE_OF_TAPS) == []


def test_a_part_that_is_being_restarted_is_down_since_it_ended_with_why_and_what_is_affected() -> None:
    since_us = NOW_US - 12 * SECOND_US
    down = replace(LAKE, state="restarting", down_since_us=since_us, error="The disk is full.", affects="No new rows.")
    assert outages(GATE, TILES, down) == [Outage(PART, "lake", since_us, "The disk is full.", "No new rows.")]
    (outage,) = outages(down)
    assert outage.sentence == "part lake is down since 2025-12-31T23:59:48Z: The disk is full. Affected: No new rows."
    assert outage.to_json() == {
        "what": "part lake",
        "since": "2025-12-31T23:59:48Z",
        "why": "The disk is full.",
        "affects": "No new rows.",
    }


def test_a_part_that_is_started_for_the_first_time_does_not_run_yet() -> None:
    starting = replace(LAKE, state="starting", affects="No new rows.")
    assert outages(starting) == [Outage(PART, "lake", None, "it is being started", "No new rows.")]
    assert outages(replace(LAKE, state="stopped")) == []


def test_parts_of_another_app_and_parts_that_are_reported_no_longer_do_not_count() -> None:
    other = replace(LAKE, app="other", state="restarting", down_since_us=NOW_US)
    former = replace(LAKE, part="sink", state="restarting", at_us=NOW_US - 60 * SECOND_US, down_since_us=1)
    status = build_app_status(APP, board(LAKE, other, former), NOW_US)
    assert [one.part for one in status.parts] == ["lake"]
    assert status.outages == ()


def test_the_newer_word_on_a_part_counts_wherever_it_comes_from() -> None:
    ended = {"state": "restarting", "down_since_us": NOW_US, "error": "killed by signal 9 (SIGKILL)"}
    newer = replace(LAKE, at_us=NOW_US + SECOND_US, **ended)  # type: ignore[arg-type]
    status = build_app_status(APP, board(LAKE), NOW_US + SECOND_US, more_parts=[newer])
    assert [one.reason for one in status.outages] == ["killed by signal 9 (SIGKILL)"]
    assert build_app_status(APP, board(newer), NOW_US + SECOND_US, more_parts=[LAKE]).outages == status.outages


def test_a_query_that_fails_is_down_with_its_error_and_what_it_computes_is_affected() -> None:
    failed = replace(TILES, running=False, down_since_us=NOW_US - SECOND_US, error="The state is damaged.")
    (outage,) = outages(GATE, failed)
    assert (outage.kind, outage.name, outage.since_us) == (QUERY, "taps.tiles-1", NOW_US - SECOND_US)
    assert (outage.reason, outage.impact) == ("The state is damaged.", "Features of ById keep their last values.")


@pytest.mark.parametrize(
    ("query", "affects"),
    [
        (GATE, "New events of taps wait; features keep their last values."),
        (DERIVE, "abroad get no new events."),
    ],
    ids=["gate", "derivation"],
)
def test_a_query_that_falls_silent_is_down_since_it_last_spoke(query: QueryProgress, affects: str) -> None:
    silent = replace(query, at_us=NOW_US - 20 * SECOND_US)
    (outage,) = outages(silent)
    assert (outage.since_us, outage.impact) == (silent.at_us, affects)
    assert outage.reason == "it has not reported since 2025-12-31T23:59:40Z"


def test_a_query_whose_driver_is_down_is_down_because_of_that() -> None:
    driver = replace(STREAM, state="restarting", down_since_us=NOW_US, error="killed by signal 9 (SIGKILL)")
    query = replace(GATE, at_us=NOW_US - 20 * SECOND_US)
    assert [one.reason for one in outages(driver, query)] == [
        "killed by signal 9 (SIGKILL)",
        "its driver stream is down: killed by signal 9 (SIGKILL)",
    ]


def test_a_query_that_another_took_the_place_of_is_not_down() -> None:
    former = replace(TILES, query="taps.tiles-0", running=False, at_us=NOW_US - 10**12)
    status = build_app_status(APP, board(GATE, former, TILES), NOW_US)
    assert [one.query for one in status.queries] == ["taps.gate", "taps.tiles-1"]
    assert status.outages == ()


def test_a_table_whose_steps_fail_is_down_unless_no_lake_runs_any_more() -> None:
    stuck = replace(TABLE_OF_TAPS, down_since_us=NOW_US - SECOND_US, error="No statistics.")
    (outage,) = outages(LAKE, stuck)
    assert (outage.kind, outage.name, outage.reason) == (TABLE, "silver/taps", "No statistics.")
    assert outage.impact == "silver/taps of the lake gets no new rows; 5 records wait."
    assert outages(STREAM, stuck) == []
    assert outages(LAKE, replace(stuck, topic="another.clean")) == []


def test_a_bridge_that_says_what_keeps_it_is_down_until_it_falls_silent() -> None:
    found = board()
    found.put(SourceProgress("taps", NOW_US, 0, 0, "NATS is away."))
    found.put(SinkProgress("other", "host:1", NOW_US, {}, {}, 0, "of another app"))
    (outage,) = build_app_status(APP, found, NOW_US).outages
    assert (outage.subject, outage.since_us, outage.reason) == ("bridge taps", None, "NATS is away.")
    assert build_app_status(APP, found, NOW_US + 60 * SECOND_US).outages == ()


def test_a_scorer_that_says_what_keeps_it_is_down_with_its_model() -> None:
    model = hr.Model("judge", on=taps, features=[ById], file="judge.onnx")
    found = board()
    found.put(ScorerProgress("judge", "host:1", NOW_US, 0, [], {}, [], 0.0, "the store fills"))
    found.put(ScorerProgress("other", "host:1", NOW_US, 0, [], {}, [], 0.0, "of another app"))
    (outage,) = build_app_status(replace(APP, models=(model,)), found, NOW_US).outages
    assert (outage.subject, outage.reason) == ("model judge", "the store fills")
    assert "judge" in outage.impact


def test_maintenance_that_fails_is_down_for_the_app_whose_table_it_is() -> None:
    status = board(GATE, TILES, TABLE_OF_TAPS)
    for table in ("silver/taps", "silver/of_another_app"):
        status.put(MaintenanceProgress(table, NOW_US, NOW_US - SECOND_US, "OSError: no space left"))
    (outage,) = [one for one in build_app_status(APP, status, NOW_US).outages if one.kind == "maintenance"]
    assert (outage.name, outage.reason, outage.since_us) == (
        "silver/taps",
        "OSError: no space left",
        NOW_US - SECOND_US,
    )
