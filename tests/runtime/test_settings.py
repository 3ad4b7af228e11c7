"""Settings come from flags, variables and headrace.toml; an invalid one is rejected in one sentence."""

from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.cli.commands.app.up import READY_TIMEOUT_SECONDS, ReadinessMonitor
from headrace.declare.app import load_app
from headrace.embedded_servers.ports import HOST, free_port
from headrace.runtime.configuration.settings_file import file_defaults
from headrace.runtime.configuration.value_formats import otlp_receiver
from headrace.runtime.parts.app_parts import list_parts, part_command
from headrace.runtime.settings import BadSetting, Settings, lake_folder
from headrace.server.auth.internal_client import InternalClient

APP = "examples/fraud/app.py"


def settings(store: str = "memory") -> Settings:
    return Settings("127.0.0.1:1", "b:1", 9092, store, None, Path("s"), None, frozenset({"payments"}), "real-time", 60)


def test_a_part_is_not_told_the_stores_address_or_a_rebuild_on_its_command_line() -> None:
    command = part_command(APP, "stream", settings("redis://user:secret@cache:6379"))
    assert not any("secret" in word or "rebuild" in word for word in command)
    assert command[command.index("--checkpoint") + 1] == "60s"


def test_a_rebuild_in_the_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headrace.toml").write_text('rebuild = ["payments"]\n')
    with pytest.raises(BadSetting, match="Give it once: --rebuild STREAM"):
        file_defaults(["up"])


@pytest.mark.parametrize("written", ["1s", "0s", "soon"])
def test_a_checkpoint_that_spark_cannot_keep_is_refused(written: str) -> None:
    said = CliRunner().invoke(main, ["up", APP, "--checkpoint", written])
    assert said.exit_code != 0
    assert "--checkpoint" in said.output


def test_the_lake_is_beside_the_state_unless_told_another_place_or_off() -> None:
    assert lake_folder(None, Path("s")) == Path("s/lake")
    assert lake_folder("/data/lake", Path("s")) == Path("/data/lake")
    assert lake_folder("off", Path("s")) is None


def test_parts_are_told_of_the_lake() -> None:
    told = replace(settings(), lake=Path("l"), lake_every_s=0.5, lake_retention=timedelta(days=90))
    command = part_command(APP, "stream", told)
    flags = {flag: command[command.index(flag) + 1] for flag in ("--lake", "--lake-every", "--lake-retention")}
    assert flags == {"--lake": "l", "--lake-every": "500ms", "--lake-retention": "90d"}
    in_iceberg = part_command(APP, "lake", replace(told, lake_format="iceberg"))
    assert in_iceberg[in_iceberg.index("--lake-format") + 1] == "iceberg"
    plain = part_command(APP, "stream", settings())
    flags = {flag: plain[plain.index(flag) + 1] for flag in ("--lake", "--lake-every", "--lake-retention")}
    assert flags == {"--lake": "off", "--lake-every": "1m", "--lake-retention": "forever"}


def test_a_lake_is_a_process_of_its_own_where_there_is_one() -> None:
    app = load_app(APP)
    _, others = list_parts(replace(settings(), lake=Path("l")), app)
    assert "lake" in others
    assert "lake" not in chain(*list_parts(settings(), app))


def test_who_no_answer_needs_is_started_once_the_app_is_ready_or_does_not_become_so() -> None:
    started: list[float] = []
    readiness = ReadinessMonitor(InternalClient(f"http://{HOST}:{free_port()}"), lambda: started.append(0.0))
    for _ in range(10):
        readiness()
    assert not started
    readiness._started_at -= READY_TIMEOUT_SECONDS
    readiness()
    readiness()
    assert len(started) == 1


@pytest.mark.parametrize("flag", ["--lake-retention", "--lake-every"])
def test_a_duration_of_the_lake_that_cannot_be_meant_is_refused(flag: str) -> None:
    said = CliRunner().invoke(main, ["up", APP, flag, "0h"])
    assert said.exit_code == 1
    assert flag in said.output
    assert "5h" in CliRunner().invoke(main, ["up", APP, "--lake-retention", "5h"]).output


def test_a_part_is_told_who_may_be_told_but_not_the_webhooks_address_on_its_command_line() -> None:
    told = replace(
        settings(),
        webhook="https://hooks.example/secret",
        webhook_allow=("10.1.2.3", "fd00::/8"),
        webhook_ca=Path("ca"),
    )
    command = part_command(APP, "watch", replace(told, otlp="https://otlp.example/secret", otlp_every_s=30.0))
    assert command[command.index("--otlp-every") + 1] == "30s"
    assert "secret" not in " ".join(command) + repr(replace(told, otlp="https://otlp.example/secret"))
    assert [command[n + 1] for n, word in enumerate(command) if word == "--webhook-allow"] == ["10.1.2.3", "fd00::/8"]
    assert command[command.index("--webhook-ca") + 1] == "ca"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--webhook", "http://hooks.example/secret"], "Write https://host/path"),
        (["--webhook-allow", "10.0.0.1/8"], "Write an address or a network"),
        (["--alerts-every", "often"], "--alerts-every"),
        (["--otlp", "http://collector.example:4318"], "--otlp http://127.0.0.1:4318"),
        (["--otlp-every", "often"], "--otlp-every"),
    ],
)
def test_who_cannot_be_told_is_refused_before_anything_starts(flags: list[str], words: str) -> None:
    said = CliRunner().invoke(main, ["up", APP, *flags])
    assert said.exit_code == 1
    assert words in said.output
    assert "secret" not in said.output


def test_the_variable_of_all_who_speak_otlp_is_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert otlp_receiver(None) is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example")
    assert otlp_receiver(None) == "https://collector.example"
    assert otlp_receiver("https://ours.example") == "https://ours.example"
    assert otlp_receiver("off") is None
