"""Limits on request rates and on slow clients; other clients are unaffected."""

import socket
from pathlib import Path

import pytest

from headrace.embedded_servers.ports import HOST
from headrace.server.auth import request_guard as guards
from headrace.server.auth.access_config import AccessConfig
from headrace.server.auth.scopes import Scope
from headrace.server.http import listener
from headrace.server.http.routing import MAX_BODY_BYTES
from tests.server.secured_server import Guarded, bearer, guarded
from tests.waiting import SOCKET_S, wait_until


def test_one_token_asks_so_often_and_the_others_go_on(tmp_path: Path) -> None:
    with guarded(tmp_path, AccessConfig(requests_per_second=2.0)) as server:
        statuses = [server(Scope.READ, "GET", "/version").status for _ in range(12)]
        assert statuses[:2] == [200] * 2
        assert 429 in statuses
        said = server(Scope.READ, "GET", "/version")
        assert server(Scope.ADMIN, "GET", "/version").status == 200
        if said.status == 429:
            assert said.headers["retry-after"] == "1"
        wait_until(lambda: server(Scope.READ, "GET", "/version").status == 200, 5, "it to be let in again")


def test_who_is_not_known_asks_so_often_by_address_and_whoever_is_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "ANONYMOUS_REQUESTS_PER_SECOND", 1.0)
    with guarded(tmp_path, AccessConfig(is_behind_proxy=True, allowed_hosts=("shop.example",))) as server:
        for way in ({}, bearer("hr_guess")):
            guess = [
                server.ask("GET", "/version", headers=way | {"X-Forwarded-For": "1.1.1.1, 2.2.2.2"}).status
                for _ in range(9)
            ]
            assert set(guess) <= {401, 429}
            assert 429 in guess
        assert server.ask("GET", "/ping", headers={"X-Forwarded-For": "2.2.2.2, 3.3.3.3"}).status == 200
        assert server(Scope.READ, "GET", "/version", **{"X-Forwarded-For": "2.2.2.2"}).status == 200


def test_a_thousand_addresses_a_second_leave_nothing_behind() -> None:
    from headrace.server.auth.rate_limit import MAX_ADDRESSES, AddressRateLimiter

    buckets = AddressRateLimiter(2.0)
    for number in range(3 * MAX_ADDRESSES):
        assert buckets.try_acquire(str(number), number / 1000)
    assert len(buckets._buckets) <= MAX_ADDRESSES
    for _ in range(2):
        buckets.try_acquire("one", 100.0)
    assert not buckets.try_acquire("one", 100.0)
    assert buckets.try_acquire("one", 100.5)


def test_a_bucket_gives_its_rate_in_the_long_run_and_two_seconds_of_it_at_once() -> None:
    from headrace.server.auth.rate_limit import TokenBucket

    for asked_a_second in (5, 10, 11, 40, 1000):
        bucket = TokenBucket(10.0, 0.0)
        given = sum(bucket.try_acquire(number / asked_a_second) for number in range(100 * asked_a_second))
        assert min(100 * asked_a_second, 1000) <= given <= 1010
    rested = TokenBucket(10.0, 0.0)
    assert sum(rested.try_acquire(1000.0) for _ in range(100)) == 20


def test_an_address_has_so_many_connections_and_this_machine_as_many_as_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.server.http.routing import Router

    monkeypatch.setattr(listener, "MAX_CONNECTIONS_PER_CLIENT", 2)
    server = listener.HttpServer(Router([], {}), None)  # type: ignore[arg-type]
    connections = [object() for _ in range(8)]
    addresses = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", *["127.0.0.1"] * 3, "192.0.2.1"]
    told = [server.register(one, address) for one, address in zip(connections, addresses, strict=True)]  # type: ignore[arg-type]
    assert [answer is not None for answer in told] == [False, False, True, False, False, False, False, True]
    for one in connections:
        server.unregister(one)  # type: ignore[arg-type]
    assert (server._connections, server._connections_by_network) == ({}, {})


def test_a_body_is_not_waited_for_from_who_may_not_ask(server: Guarded) -> None:
    head = f"POST /features/CardSpend HTTP/1.1\r\nhost: localhost\r\ncontent-length: {MAX_BODY_BYTES}\r\n\r\n{{"
    with socket.create_connection((HOST, server.ask.port), timeout=SOCKET_S) as client:
        client.sendall(head.encode())
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 401 ")
    with socket.create_connection((HOST, server.ask.port), timeout=SOCKET_S) as client:
        client.sendall(head.replace("{", "").replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n").encode())
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("token", ["", "authorization: Bearer {}\r\n"], ids=["stranger", "known"])
@pytest.mark.parametrize("begun", ["x-slow: ", "content-length: 1000\r\n\r\n"], ids=["head", "body"])
def test_who_sends_a_byte_now_and_then_is_cut_off(
    server: Guarded, token: str, begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.1)
    monkeypatch.setattr(listener, "TICKS_PER_SWEEP", 1)
    head = f"POST /features/CardSpend HTTP/1.1\r\n{token.format(server.tokens[Scope.READ])}{begun}"
    with socket.create_connection((HOST, server.ask.port), timeout=SOCKET_S) as slow:
        slow.sendall(head.encode())
        wait_until(lambda: is_over(slow), 5, "the server to let go of it")


def is_over(slow: socket.socket) -> bool:
    """One byte more; whether that is too late."""
    try:
        slow.sendall(b" ")
    except OSError:
        return True
    return False


@pytest.mark.parametrize("header", [b"authorization", b"cookie", b"host", b"origin", b"x-forwarded-for"])
@pytest.mark.parametrize(
    "value", [b"", b"Bearer", b"Bearer ", b"bearer \xff\xfe", b"\x80" * 2000, b"=;=;=", b"://", b"a." * 3]
)
def test_no_header_of_the_guard_breaks_the_server(server: Guarded, header: bytes, value: bytes) -> None:
    with socket.create_connection((HOST, server.ask.port), timeout=SOCKET_S) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n%b: %b\r\nconnection: close\r\n\r\n" % (header, value))
        assert int(client.recv(1 << 16).split(b" ", 2)[1]) in {401, 403}
