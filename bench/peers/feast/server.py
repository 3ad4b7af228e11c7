"""Runs `feast serve` over a Redis that Feast itself has filled."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchFailed
from bench.parts import running
from bench.waiting import wait_for
from bench.wrk import CARD, Question
from headrace.embedded_servers.ports import HOST, free_port, is_listening

WORKERS = 2
READY_LIMIT_S = 60.0
FILL = Path(__file__).with_name("fill.py")
SETTINGS = """\
project: bench
provider: local
registry: registry.db
online_store:
  type: redis
  connection_string: {redis}
entity_key_serialization_version: 3
"""
# By default a worker is replaced after a thousand requests, and fails those in flight.
FLAGS = ("--workers", str(WORKERS), "--no-access-log", "--max-requests", "0")

Vector = Mapping[str, Any]


@dataclass(frozen=True)
class Feast:
    """A feature server of Feast's that is up."""

    port: int
    features: Sequence[str]

    @property
    def question(self) -> Question:
        """One entity, all its features."""
        asked = {"features": [f"card_spend:{name}" for name in self.features], "entities": {"card": [CARD]}}
        return Question(f"http://{HOST}:{self.port}/get-online-features", json.dumps(asked))

    def vector(self, card: str) -> Vector:
        """The features of one card."""
        said = json.loads(self.question.answer(card))
        found = zip(said["metadata"]["feature_names"], said["results"], strict=True)
        return {name: column["values"][0] for name, column in found if name != "card"}


@contextmanager
def feast_server(programs: Path, folder: Path, redis_url: str, vectors: Mapping[str, Vector]) -> Iterator[Feast]:
    """Feast's server, once it holds a vector for each card."""
    folder.mkdir()
    (folder / "feature_store.yaml").write_text(SETTINGS.format(redis=_place(redis_url)))
    _fill(programs, folder, vectors)
    port, output = free_port(), folder / "serve.out"
    command = [str(programs / "feast"), "--chdir", str(folder), "serve", "--host", HOST, "--port", str(port), *FLAGS]
    with running(command, output) as child:

        def ready() -> bool:
            if not child.is_alive():
                raise BenchFailed(f"feast serve ended by itself:\n{output.read_text()[-3000:]}")
            return is_listening(HOST, port) and _healthy(port)

        wait_for(ready, READY_LIMIT_S, "feast serve to be ready", 0.25)
        yield Feast(port, list(next(iter(vectors.values()))))


def _place(redis_url: str) -> str:
    """A Redis as Feast writes it.

    >>> _place("redis://127.0.0.1:6379/0")
    '127.0.0.1:6379,db=0'
    """
    place, _, number = redis_url.removeprefix("redis://").partition("/")
    return f"{place},db={number}"


def _fill(programs: Path, folder: Path, vectors: Mapping[str, Vector]) -> None:
    written = folder / "vectors.json"
    written.write_text(json.dumps([{"card": card, **vector} for card, vector in vectors.items()]))
    run = subprocess.run(
        [str(programs / "python"), str(FILL), str(folder), str(written)], capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        raise BenchFailed(f"Feast did not take the vectors:\n{run.stderr[-3000:]}")


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=5):
            return True
    except OSError:
        return False
