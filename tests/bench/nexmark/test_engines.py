"""Engines in their own processes: their responses, and the restart of one that does not respond."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.nexmark.catalogue import QUERIES
from bench.nexmark.engines import Engine, NotAnswered, Program
from bench.peers.flink.sql import key_of, text_of
from tests.waiting import wait_until

TEXT = """
import os, sys, time
from bench.nexmark.orders import obey

class Echo:
    def say(self, what):
        print("a JVM prints what it likes")
        return what
    def sleep(self):
        time.sleep(60)
    def fail(self):
        raise ValueError("not\\ntoday")
    def die(self):
        sys.stderr.write("out of memory")
        sys.stderr.flush()
        os._exit(1)
    def pid(self):
        return os.getpid()

obey(Echo())
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(Program("Echo", [sys.executable, "-c", TEXT], tmp_path / "echo.out")) as running:
        yield running


def test_an_order_is_answered_whatever_else_is_printed(engine: Engine) -> None:
    assert [engine.ask({"do": "say", "what": what}, 20) for what in (1, None, "ä")] == [1, None, "ä"]


def test_what_fails_is_said_and_the_engine_goes_on(engine: Engine) -> None:
    with pytest.raises(NotAnswered, match="ValueError: not today"):
        engine.ask({"do": "fail"}, 20)
    assert engine.ask({"do": "say", "what": 2}, 20) == 2


def test_one_that_does_not_answer_in_time_is_ended_and_the_next_order_starts_another(engine: Engine) -> None:
    first = engine.ask({"do": "pid"}, 20)
    with pytest.raises(NotAnswered, match=r"no answer within 0.2 s"):
        engine.ask({"do": "sleep"}, 0.2)
    wait_until(lambda: not Path(f"/proc/{first}").exists(), limit_s=20, what="the engine to end")
    assert engine.ask({"do": "pid"}, 20) not in (first, os.getpid())


def test_one_that_ends_by_itself_is_told_of_with_its_last_words(engine: Engine) -> None:
    with pytest.raises(NotAnswered, match="ended by itself: out of memory"):
        engine.ask({"do": "die"}, 20)
    assert engine.ask({"do": "say", "what": 3}, 20) == 3


@pytest.mark.parametrize("name", QUERIES)
def test_flink_is_asked_every_query_and_tells_updated_rows_apart_by_the_same_key(name: str) -> None:
    query, key = QUERIES[name], key_of(text_of(name))
    assert key == query.key or (name == "q12" and not key)  # there Flink emits each count once, when its window ends
    assert key or not query.updates or name == "q12"
