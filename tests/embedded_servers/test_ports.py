"""The ports that embedded servers get."""

import socket
from pathlib import Path

import pytest

from headrace.embedded_servers import ports
from headrace.embedded_servers.ports import HOST, free_port


def test_two_ports_of_one_server_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_PORT_RANGE", range(20_000, 20_002))
    if not all(ports.is_free(port) for port in (20_000, 20_001)):
        pytest.skip("ports 20000 and 20001 are in use here")
    assert {free_port(excluded=20_000) for _ in range(20)} == {20_001}


def test_where_every_port_is_taken_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_PORT_RANGE", range(port, port + 1))
        with pytest.raises(ports.PortInUseError, match=f"from {port} to {port} is free"):
            free_port()


def test_a_chosen_port_is_none_that_a_client_may_be_given() -> None:
    lent = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not lent.exists():
        pytest.skip("this system does not tell which ports it lends to clients")
    assert free_port() < int(lent.read_text().split()[0])
