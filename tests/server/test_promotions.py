"""A hundred promotions and rollbacks under constant requests: no request fails, no response mixes versions."""

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.models.inference.prediction import Prediction
from headrace.models.versions.version_store import VersionStore
from tests.models.cards import versions_of
from tests.models.networks import weighing
from tests.models.simulated_stream import INPUTS, Played, new_app
from tests.waiting import SOCKET_S, patiently, wait_until

VERSIONS, CLIENTS, CHANGES = 4, 4, 100
CARDS = 7


@contextmanager
def server(app: Path, broker: str) -> Iterator[int]:
    """`headrace run APP serve`: the port it listens on."""
    port = free_port()
    command = [sys.executable, "-m", "headrace", "run", str(app), "serve", "--broker", broker]
    child = ChildProcess(
        [*command, "--state", str(app.parent), "--http", f"{HOST}:{port}"],
        folder=app.parent,
        output=app.parent / "serve.log",
    )
    child.start()
    try:
        wait_until(lambda: is_listening(HOST, port), 30, "the server to listen")
        yield port
    finally:
        assert child.stop(grace_s=patiently(20))


class Client(threading.Thread):
    """Asks again as soon as it is answered, about three events of a card at once."""

    def __init__(self, port: int, model: str, number: int) -> None:
        super().__init__()
        self.wrong: list[Any] = []
        self.versions: Counter[str] = Counter()
        self._path, self._number, self._ended = f"/predict/{model}", number, threading.Event()
        self._connection = HTTPConnection(HOST, port, timeout=SOCKET_S)

    def run(self) -> None:
        asked = 0
        while not self._ended.is_set():
            self._ask(asked)
            asked += 1
        self._connection.close()

    def finish(self) -> None:
        self._ended.set()
        self.join()

    def _ask(self, asked: int) -> None:
        event = {"id": f"h{self._number}-{asked}", "card": f"c{asked % CARDS}", "amount": float(asked % 90)}
        self._connection.request("POST", self._path, json.dumps([event | {"id": f"{event['id']}-{n}"} for n in "abc"]))
        said = self._connection.getresponse()
        body = said.read()
        rows = json.loads(body) if said.status == 200 else []
        self.versions.update(row["version"] for row in rows)
        right = all(is_right(row["score"], row["version"], row["features"]) and not row["degraded"] for row in rows)
        if len(rows) != 3 or len({row["version"] for row in rows}) != 1 or not right:
            self.wrong.append((said.status, body))


def is_right(score: float | None, version: str, features: dict[str, Any]) -> bool:
    """Whether a score is that of a version on these features: their sum times the version's number."""
    return score == pytest.approx(int(version) * sum(value or 0 for value in features.values()), rel=1e-6)


def is_whole(played: Played, one: Prediction) -> bool:
    """Whether a logged vector equals brute force over the events it names."""
    card = f"c{int(one.event_id.split('-')[1]) % CARDS}"
    amounts = [event["amount"] for event, _ in played.events.get(card, [])]
    of_10m, of_1h = (events for events, _ in one.known[played.view.name])
    spent, amount = sum(amounts[:of_1h]) if of_1h else None, one.features["amount"]
    wanted = (of_10m, of_1h, spent, amount / spent if spent else None, amount)
    return one.features == dict(zip(INPUTS, wanted, strict=True))


def change(versions: VersionStore, number: int) -> str:
    """Promote a version or, every second time, roll back; returns the new champion."""
    if number % 2:
        versions.rollback()
    else:
        versions.promote(str(2 + number // 2 % (VERSIONS - 1)))
    champion = versions.load_roles().champion
    assert champion is not None
    return champion


@pytest.mark.faults
def test_a_hundred_promotions_and_rollbacks_under_load_fail_nothing_and_mix_nothing(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    played = Played(new_app(tmp_path, broker.address, source="train=lambda frame: frame", budget="5s"), broker.address)
    model = played.model.name
    networks = [weighing(len(INPUTS), weight) for weight in range(1, VERSIONS + 1)]
    versions = versions_of(tmp_path, *networks, model=model)
    with server(tmp_path / "app.py", broker.address) as port:
        wait_until(lambda: scores(port, model), 60, "the server to score")
        clients = [Client(port, model, number) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for number in range(CHANGES):
            played.send(played.clean(played.event(number)))
            promoted = change(versions, number)
            before = sum(client.versions[promoted] for client in clients)
            seen = lambda name=promoted, n=before: sum(one.versions[name] for one in clients) > n + CLIENTS  # noqa: E731
            wait_until(seen, 30, f"version {promoted} to answer")
        for client in clients:
            client.finish()
    asked = sum((client.versions for client in clients), Counter())
    assert [one for client in clients for one in client.wrong] == []
    logged = [one for one in played.predictions() if one.event_id.startswith("h")]
    assert Counter(one.version for one in logged) == asked
    assert [one for one in logged if not is_right(one.score, one.version, dict(one.features))] == []
    assert [one for one in logged if not is_whole(played, one)] == []
    sys.stdout.write(f"\n{CHANGES} changes, {asked.total()} scores, none wrong: {dict(sorted(asked.items()))}\n")


def scores(port: int, model: str) -> bool:
    connection = HTTPConnection(HOST, port, timeout=SOCKET_S)
    connection.request("POST", f"/predict/{model}", json.dumps({"id": "first", "card": "nobody", "amount": 1.0}))
    status = connection.getresponse().status
    connection.close()
    return status == 200
