"""`up` rejects what can never work before it starts anything: ports, folders, stores and declarations."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.cli.commands.app.up import LocalRunner
from headrace.embedded_servers.ports import HOST, PortInUseError, free_port
from headrace.embedded_servers.server_folder import ServerFolder, StateFolderInUseError
from headrace.errors import HeadraceError
from headrace.online_store.registry import UnknownStoreError
from headrace.runtime.part_runner import NAMED_PART_RUNNERS, PART_RUNNERS
from headrace.runtime.parts.app_parts import OUTAGE_EFFECTS
from headrace.runtime.settings import Settings
from tests.runtime.test_settings import APP, settings


@pytest.fixture
def place(tmp_path: Path) -> Settings:
    ports = {"http": f"{HOST}:{free_port()}", "broker_port": free_port(), "registry_port": free_port()}
    return replace(settings(), state=tmp_path / "state", broker=None, **ports)  # type: ignore[arg-type]


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as other:
        yield other.getsockname()[1]


def start(running: LocalRunner) -> None:
    running.require_startable()
    running.run()


def refused(place: Settings, app: str = APP) -> HeadraceError:
    """Why an app is not started; nothing of it was."""
    running = LocalRunner(app, place, threading.Event())
    try:
        with pytest.raises(HeadraceError) as caught:
            start(running)
    finally:
        running.stop()
    assert running._supervisor._part_supervisors == {}
    assert not list(place.state.rglob("*.log"))
    return caught.value


@pytest.mark.parametrize("setting", ["--http", "--broker-port", "--registry-port"])
def test_a_taken_port_is_refused(place: Settings, taken: int, setting: str) -> None:
    chosen: dict[str, Any] = {
        "--http": {"http": f"{HOST}:{taken}"},
        "--broker-port": {"broker_port": taken},
        "--registry-port": {"starts_registry": True, "registry_port": taken},
    }[setting]
    error = refused(replace(place, **chosen))
    assert isinstance(error, PortInUseError)
    assert str(error).startswith(f"Port {taken} on {HOST} is taken by ")
    assert str(error).endswith(f"choose another port with {setting}.")


def test_a_state_folder_that_another_runs_on_is_refused(place: Settings) -> None:
    other = ServerFolder(place.state, "broker")
    other.lock("runs a broker on")
    try:
        assert isinstance(refused(place), StateFolderInUseError)
    finally:
        other.unlock()


def test_a_store_that_is_none_is_refused(place: Settings) -> None:
    assert isinstance(refused(replace(place, store="postgres://")), UnknownStoreError)


@pytest.mark.parametrize("registry", [False, True])
def test_a_bad_declaration_is_refused_before_a_broker_or_a_registry_starts(
    place: Settings, tmp_path: Path, registry: bool
) -> None:
    file = tmp_path / "bad.py"
    file.write_text('import headrace as hr\nbad = hr.Stream("bad", schema="id string", id="no", key="id", time="id")\n')
    assert isinstance(refused(replace(place, starts_registry=registry), str(file)), hr.DeclarationError)


def test_a_retention_too_short_for_labels_is_refused_before_a_broker_starts(place: Settings, tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text(
        "import headrace as hr\n"
        'taps = hr.Stream("taps", schema="id string, at timestamp", id="id", key="id", time="at")\n'
        'says = hr.Stream("says", schema="id string, v double, at timestamp", id="id", key="id", time="at")\n'
        '@hr.features(taps, by="id")\nclass ById:\n    n = hr.count(windows="1h")\n'
        'm = hr.Model("m", on=taps, features=[ById], train=lambda f: f,'
        ' labels=hr.Labels(says, value="v", within="30d"))\n'
    )
    short = replace(place, lake=tmp_path / "lake", lake_retention=timedelta(days=1))
    assert "retention" in str(refused(short, str(file)))


def test_every_part_says_what_is_affected_while_it_is_down() -> None:
    assert OUTAGE_EFFECTS.keys() == {*PART_RUNNERS, *NAMED_PART_RUNNERS, "broker", "registry"}
    assert all(sentence.endswith(".") for sentence in OUTAGE_EFFECTS.values())
