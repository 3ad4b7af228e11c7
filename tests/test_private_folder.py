"""Only its owner can read the state folder: new folders are private, existing ones become so."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.models.versions.version_store import VersionStore
from headrace.server.auth.api_tokens import create_token, tokens_file
from headrace.server.auth.scopes import Scope
from headrace.server.auth.signed_tokens import TokenSigner
from headrace.storage.private_folder import make_private_folder


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_new_folder_is_private_and_its_parents_are_as_usual(tmp_path: Path) -> None:
    assert make_private_folder(tmp_path / "a" / "state") is None
    assert (mode_of(tmp_path / "a" / "state"), mode_of(tmp_path / "a")) == (0o700, 0o755)
    assert make_private_folder(tmp_path / "a" / "state") is None


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o777, 0o701, 0o2770])
def test_an_open_folder_is_closed_and_that_is_said(tmp_path: Path, mode: int) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(mode)
    was = f"{state} was open to other users (mode {mode:04o})"
    assert make_private_folder(state) == f"{was}: it is closed to them now (mode {mode & 0o7700:04o})."
    assert mode_of(state) & 0o777 == 0o700
    assert make_private_folder(state) is None


def test_a_folder_that_is_not_the_states_alone_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    shared.chmod(0o1777)
    (own / "inner").mkdir(parents=True)
    own.chmod(0o755)
    monkeypatch.chdir(own / "inner")
    for folder, mode in ((shared, 0o1777), (own, 0o755)):
        assert "Give --state its own folder" in str(make_private_folder(folder))
        assert mode_of(folder) == mode


def test_whoever_makes_the_state_folder_makes_it_private_and_its_secrets_too(tmp_path: Path) -> None:
    create_token(tmp_path / "a", "reader", frozenset({Scope.READ}))
    TokenSigner.from_state_folder(tmp_path / "b")
    with VersionStore(tmp_path / "c", "fraud")._exclusive_lock():
        pass
    assert [mode_of(tmp_path / name) for name in "abc"] == [0o700] * 3
    secrets = [tokens_file(tmp_path / "a"), *(one for one in (tmp_path / "b").iterdir() if one.is_file())]
    assert len(secrets) == 2
    assert {mode_of(one) for one in secrets} == {0o600}


def test_a_part_closes_the_state_folder_and_says_so(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    command = [sys.executable, "-m", "headrace", "run", "nowhere.py", "serve", "--state", str(state)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert f"{state} was open to other users (mode 0755)" in ran.stderr
    assert mode_of(state) == 0o700
