"""The lake gives way once it has kept up, and ends where that lets it fall far behind."""

import os
import threading

import pytest

from headrace.cli import lake
from headrace.cli.lake import Politeness
from headrace.evaluate.lasting import Lasting, Together
from headrace.lake.care import Care, Caretaker


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


def test_it_waits_for_the_first_look_of_what_works_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    polite: list[tuple[int, ...]] = []
    monkeypatch.setattr(lake, "give_way", lambda *pids: polite.append(pids))
    look = Look()
    politeness = Politeness(threading.Event())
    politeness.beside = [Together([look], Caretaker([], Care(None)))]
    politeness.kept_up()
    assert not polite
    look.has_begun = True
    politeness.kept_up()
    assert polite == [(os.getpid(),)]


def test_what_never_begins_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    polite: list[tuple[int, ...]] = []
    monkeypatch.setattr(lake, "give_way", lambda *pids: polite.append(pids))
    monkeypatch.setattr(lake, "PATIENCE_SECONDS", 0.0)
    politeness = Politeness(threading.Event())
    politeness.beside = [Together([Look()], Caretaker([], Care(None)))]
    politeness.kept_up()
    assert polite == [(os.getpid(),)]


class Look(Lasting):
    def __init__(self) -> None:
        super().__init__("look", 0.0)

    def _run(self) -> None:
        raise NotImplementedError

    def _report_failure(self) -> None:
        raise NotImplementedError
