"""The lake gives way once it has kept up, and ends where that lets it fall far behind."""

import os
import threading

import pytest

from headrace.cli import lake
from headrace.cli.lake import Politeness


def test_who_gives_way_and_falls_behind_ends_to_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    polite: list[tuple[int, ...]] = []
    monkeypatch.setattr(lake, "give_way", lambda *pids: polite.append(pids))
    stop = threading.Event()
    politeness = Politeness(stop)
    politeness.fell_behind(200_000)
    assert not stop.is_set()  # a backlog that is being landed is no reason to end
    politeness.spark = 4711
    politeness.kept_up()
    politeness.kept_up()
    assert polite == [(os.getpid(), 4711)]
    assert not stop.is_set()
    politeness.fell_behind(200_000)
    assert stop.is_set()
