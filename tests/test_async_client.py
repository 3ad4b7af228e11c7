"""`hr.AsyncClient` returns what `hr.Client` returns, runs requests concurrently, and retries only safe ones."""

import asyncio
import inspect
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.client.protocol import ServerRefused, ServerUnreachable
from headrace.embedded_servers.ports import HOST, free_port
from tests.server.prediction_app import CardSpend, event, fraud, predicting
from tests.server.server_thread import Asking

SCORED = (
    b'{"score":1.0,"decision":null,"model":"fraud","version":"1","features":{},"age_ms":0,"degraded":[]}'  # of nobody
)
REQUEST = {"amount": 5.0}


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with predicting(fraud(tmp_path_factory.mktemp("async"))) as asking:
        yield asking


def url_of(ask: Asking) -> str:
    return f"http://{HOST}:{ask.port}"


def test_both_clients_give_the_same(ask: Asking) -> None:
    with hr.Client(url_of(ask)) as client:
        at_once = client.features(CardSpend, ["c1", "c2"], at=None, request=REQUEST)
        scored = client.predict("fraud", event(91))
        assert client.openapi()["openapi"] == "3.1.0"

    async def asked() -> Any:
        async with hr.AsyncClient(url_of(ask)) as other:
            return (
                await other.features(CardSpend, ["c1", "c2"], request=REQUEST),
                await other.predict("fraud", event(91)),
                await other.openapi(),
            )

    features, again, told = asyncio.run(asked())
    assert [row.values for row in features] == [row.values for row in at_once]
    assert (again.score, again.decision) == (scored.score, scored.decision)
    assert told["openapi"] == "3.1.0"


def test_they_have_the_same_methods() -> None:
    def methods(client: type) -> dict[str, list[str]]:
        own = {name: value for name, value in vars(client).items() if not name.startswith("_")}
        return {name: list(inspect.signature(value).parameters) for name, value in own.items()}

    assert methods(hr.Client) == methods(hr.AsyncClient)


def test_hundreds_of_questions_share_a_few_connections(ask: Asking) -> None:
    async def asked() -> list[float]:
        async with hr.AsyncClient(url_of(ask), connections=4) as client:
            questions = [client.features(CardSpend, [f"c{n % 3}"], request=REQUEST) for n in range(200)]
            rows = await asyncio.gather(*questions)
            assert len(client._idle_connections) <= 4
            return [row[0].payments_1h for row in rows]

    assert set(asyncio.run(asked())) == {10}


def test_the_servers_sentence_is_the_error_and_the_connection_goes_on(ask: Asking) -> None:
    async def asked() -> int:
        async with hr.AsyncClient(url_of(ask)) as client:
            with pytest.raises(ServerRefused, match=r"keys\[0\]") as caught:
                await client.features(CardSpend, [5], request=REQUEST)
            await client.features(CardSpend, ["c1"], request=REQUEST)
            return caught.value.status

    assert asyncio.run(asked()) == 400


def test_a_server_that_is_not_there_is_named() -> None:
    url = f"http://{HOST}:{free_port()}"

    async def asked() -> None:
        async with hr.AsyncClient(url) as client:
            await client.hot()

    with pytest.raises(ServerUnreachable, match=rf"{url}.*headrace up"):
        asyncio.run(asked())


class Hangup:
    """A server that answers the first request of a connection, and hangs up on the second after it was read."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._listening = socket.create_server((HOST, 0))
        self.url = f"http://{HOST}:{self._listening.getsockname()[1]}"

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                if self._heard(connection):
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(SCORED) + SCORED)
                    self._heard(connection)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _heard(self, connection: socket.socket) -> bool:
        """Read one request, its body included, however it comes."""
        said = b""
        while b"\r\n\r\n" not in said:
            piece = connection.recv(1 << 16)
            if not piece:
                return False
            said += piece
        head, _, body = said.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        while length and len(body) < int(length[1]):
            body += connection.recv(1 << 16)
        self.heard.append(head.split(b" ")[1])
        return True


@contextmanager
def hanging_up() -> Iterator[Hangup]:
    server = Hangup()
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


def ask_twice(client: Any, kind: type, question: str) -> None:
    asking = {"predict": lambda: client.predict("fraud", {}), "openapi": client.openapi}[question]
    if kind is hr.Client:
        with client:
            asking()
            asking()
        return

    async def asked() -> None:
        async with client:
            await asking()
            await asking()

    asyncio.run(asked())


@pytest.mark.parametrize("kind", [hr.Client, hr.AsyncClient])
def test_a_prediction_that_may_have_been_made_is_not_asked_for_again(kind: type) -> None:
    with hanging_up() as server:
        with pytest.raises(ServerUnreachable):
            ask_twice(kind(server.url), kind, "predict")
        assert server.heard == [b"/predict/fraud"] * 2


@pytest.mark.parametrize("kind", [hr.Client, hr.AsyncClient])
def test_a_question_that_only_looks_is_asked_again(kind: type) -> None:
    with hanging_up() as server:
        ask_twice(kind(server.url), kind, "openapi")
        assert server.heard == [b"/openapi.json"] * 3


@pytest.mark.parametrize("kind", [hr.Client, hr.AsyncClient])
def test_a_token_that_cannot_stand_in_a_header_is_refused_and_not_repeated(kind: type, tmp_path: Path) -> None:
    with pytest.raises(hr.HeadraceError, match="headrace token create") as caught:
        kind("http://127.0.0.1:1", token="hr_canary\r\nX: y")
    assert "canary" not in str(caught.value)
