"""`headrace status`: what runs and what is down, from the broker or, without one, from the supervisor's file."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ProcessId
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC, publish_progress
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.lake import IngestionProgress
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.reports.progress_report import ProgressReport
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.status.status_file import STATUS_FILE, StatusFile, write_status
from headrace.runtime.status_report import QueryLag, query_lags
from headrace.telemetry.values.metrics_scraper import MetricSample

APP = """
import headrace as hr

{stream} = hr.Stream("{stream}", schema="id string, at timestamp", id="id", key="id", time="at")


@hr.features({stream}, by="id")
class ById:
    n = hr.count(windows="1h")
"""
FIELDS = {
    "parts": ["part", "state", "down_since", "restarts", "last_error", "affects"],
    "queries": [
        *("query", "lane", "running", "down_since", "restarts"),
        *("lag_records", "lag_seconds", "watermark", "last_error"),
    ],
    "tables": ["table", "last_step", "lag_records", "down_since", "last_error"],
}
NAMES = iter(range(1000))


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An app with a unique name and stream, as all tests share one broker."""
    name = f"st{os.getpid()}x{next(NAMES)}"
    file = tmp_path / f"{name}.py"
    file.write_text(APP.format(stream=name))
    return file


def ask(app: Path, broker: str, *flags: str) -> Result:
    place = ["--broker", broker, "--state", str(app.parent), "--http", f"{HOST}:{free_port()}"]
    return CliRunner().invoke(main, ["status", str(app), *place, *flags])


def told(app: Path, broker: str) -> tuple[int, dict[str, Any]]:
    said = ask(app, broker, "--json")
    return said.exit_code, json.loads(said.stdout)


def now_us() -> int:
    return time.time_ns() // 1000


def part(app: Path, name: str = "lake") -> PartProgress:
    return PartProgress(name, now_us(), "running", app=app.stem, affects="No new rows.")


def down(one: PartProgress, error: str = "The disk is full.") -> PartProgress:
    return replace(one, state="restarting", restarts=3, down_since_us=one.at_us - 12_000_000, error=error)


def queries(app: Path) -> list[QueryProgress]:
    views = ((), ("ById",))
    return [
        QueryProgress(f"{app.stem}.{name}", app.stem, of, "real-time", True, now_us())
        for name, of in zip(("gate", "tiles-0"), views, strict=True)
    ]


def send(broker: str, *said: ProgressReport) -> None:
    ensure_compacted_topic(broker, PROGRESS_TOPIC)
    with Producer(broker) as producer:
        for one in said:
            publish_progress(producer, one)


def supervised(app: Path, *parts: PartProgress, pid: int | None = None) -> None:
    own = ProcessId.from_pid(pid or os.getpid())
    write_status(app.parent, StatusFile(app.stem, now_us(), asdict(own) if own else {}, parts))


def test_all_runs(app: Path, broker: EmbeddedBroker) -> None:
    table = IngestionProgress(f"silver/{app.stem}", now_us(), 10, 0, 0.1, f"{app.stem}.clean")
    send(broker.address, part(app), part(app, "serve"), *queries(app), table)
    code, said = told(app, broker.address)
    assert (code, said["running"], said["down"]) == (0, True, [])
    assert said["broker"] == {"answers": True, "error": ""}
    assert [one["state"] for one in said["parts"]] == ["running", "running"]
    assert [one["query"] for one in said["queries"]] == [f"{app.stem}.gate", f"{app.stem}.tiles-0"]
    for room, names in FIELDS.items():
        assert [*said[room][0]] == names
    assert f"{app.stem}: all runs." in ask(app, broker.address).output


def test_what_is_down_is_told_with_why_and_what_is_affected(app: Path, broker: EmbeddedBroker) -> None:
    gate, tiles = queries(app)
    failed = replace(gate, running=False, restarts=2, down_since_us=now_us(), error="The topic is gone.")
    stuck = IngestionProgress(f"silver/{app.stem}", now_us(), 0, 5, 0.1, f"{app.stem}.clean", {}, 1, "No statistics.")
    send(broker.address, down(part(app)), failed, tiles, stuck)
    code, said = told(app, broker.address)
    assert (code, said["running"]) == (1, True)
    assert [(one["what"], one["why"]) for one in said["down"]] == [
        ("part lake", "The disk is full."),
        (f"query {app.stem}.gate", "The topic is gone."),
        (f"table silver/{app.stem}", "No statistics."),
    ]
    (lake,) = said["parts"]
    assert (lake["state"], lake["restarts"], lake["affects"]) == ("restarting", 3, "No new rows.")
    assert said["queries"][0]["running"] is False
    shown = ask(app, broker.address).output
    assert f"{app.stem}: 3 down." in shown
    assert "The disk is full." in shown


def test_without_a_broker_the_supervisors_file_says_what_is_down(app: Path) -> None:
    supervised(app, down(part(app, "broker"), "killed by signal 9 (SIGKILL)"), part(app, "serve"))
    code, said = told(app, f"{HOST}:{free_port()}")
    assert (code, said["running"], said["broker"]["answers"]) == (1, True, False)
    assert "No Kafka broker answers" in said["broker"]["error"]
    assert [(one["what"], one["why"]) for one in said["down"]] == [("part broker", "killed by signal 9 (SIGKILL)")]


def test_the_broker_of_the_last_up_is_asked_unless_another_is_named(
    app: Path, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker.address, part(app), part(app, "serve"), *queries(app))
    elsewhere = ["--state", str(app.parent), "--http", f"{HOST}:{free_port()}", "--json"]
    other_port = str(free_port())

    def answers(*flags: str) -> bool:
        said = CliRunner().invoke(main, ["status", str(app), *elsewhere, *flags])
        return bool(json.loads(said.stdout)["broker"]["answers"])

    write_status(app.parent, StatusFile(app.stem, now_us(), {}, (), broker.address))
    assert answers()
    assert not answers("--broker-port", other_port)
    monkeypatch.setenv("HEADRACE_BROKER", f"{HOST}:{other_port}")
    assert not answers()
    assert answers("--broker", broker.address)


@pytest.mark.parametrize("of_another_app", [True, False])
def test_a_file_of_another_app_or_of_before_names_no_broker(
    app: Path, monkeypatch: pytest.MonkeyPatch, of_another_app: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "headrace.runtime.status_report.read_progress", lambda broker: (asked.append(broker), (ProgressTable(), ""))[1]
    )
    write_status(app.parent, StatusFile("another" if of_another_app else app.stem, now_us(), {}, (), "b:1"))
    if not of_another_app:
        file = app.parent / STATUS_FILE
        file.write_text(json.dumps({name: it for name, it in json.loads(file.read_text()).items() if name != "broker"}))
    CliRunner().invoke(main, ["status", str(app), "--state", str(app.parent)])
    assert asked == ["127.0.0.1:9092"]


def test_nothing_runs_where_nobody_ever_started_it(app: Path) -> None:
    code, said = told(app, f"{HOST}:{free_port()}")
    assert (code, said["running"], said["down"]) == (2, False, [])
    assert "nothing runs" in ask(app, f"{HOST}:{free_port()}").output


def test_nothing_runs_once_it_was_stopped_or_its_supervisor_has_died(app: Path, broker: EmbeddedBroker) -> None:
    send(broker.address, *(replace(one, at_us=now_us() - 60_000_000) for one in queries(app)))
    supervised(app, replace(part(app), state="stopped"))
    assert told(app, broker.address)[0] == 2
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    supervised(app, replace(part(app), at_us=now_us() - 60_000_000), pid=ended.pid)
    assert told(app, broker.address)[0] == 1, "its queries are silent while it runs"
    ended.communicate(b"\n")
    code, said = told(app, broker.address)
    assert (code, said["running"], said["down"]) == (2, False, [])
    assert [one["state"] for one in said["parts"]] == ["stopped"]


def test_it_starts_without_spark(app: Path) -> None:
    program = "import sys; from headrace.cli import main; main(sys.argv[1:], standalone_mode=False)"
    program = f"try:\n    {program.replace('; ', chr(10) + '    ')}\nexcept SystemExit: pass\n"
    program += "print(sorted(name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')))"
    words = ["status", str(app), "--broker", f"{HOST}:{free_port()}", "--state", str(app.parent)]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_lag_of_a_query_is_that_of_its_partitions_together_and_the_oldest_of_them() -> None:
    records = [MetricSample({"query": "taps.gate", "partition": number}, 5.0) for number in "01"]
    seconds = [MetricSample({"query": "taps.gate", "partition": number}, float(number)) for number in "01"]
    lags = query_lags({"headrace_query_lag": records, "headrace_query_lag_seconds": seconds})
    assert lags == {"taps.gate": QueryLag(10, 1.0)}
    assert query_lags(None) == {}
