"""The memory of a server under attacks on its connections stays flat; `pytest -m faults -s` prints it."""

import sys
from pathlib import Path

import pytest

from tests.server.http.test_hostile_http import CHUNKED, HALF_BODY, MIB, PING, connected, said, sent_until_refused
from tests.server.served_process import resident_bytes, served_process

pytestmark = pytest.mark.faults
ROUNDS, CLIENTS = 20, 200


def trailers(port: int) -> None:
    """Trailers without end, on many connections at once."""
    clients = [connected(port) for _ in range(CLIENTS)]
    for client in clients:
        client.sendall(CHUNKED + b"0\r\n")
    for client in clients:
        sent_until_refused(client, b"x: yyyyyyyyyyyy\r\n" * 512, 4 * MIB)
        client.close()


def half_bodies(port: int) -> None:
    """Half a large body on many connections, which are then closed."""
    clients = [connected(port) for _ in range(CLIENTS)]
    for client in clients:
        client.sendall(HALF_BODY)
    for client in clients:
        client.close()


@pytest.mark.parametrize("attack", [trailers, half_bodies])
def test_memory_is_flat_under_attack(attack: object, tmp_path: Path) -> None:
    assert callable(attack)
    with served_process(tmp_path) as (port, pid):
        before, measured = resident_bytes(pid), list[int]()
        for _ in range(ROUNDS):
            attack(port)
            assert said(port, PING).startswith(b"HTTP/1.1 200 ")
            measured.append(resident_bytes(pid))
    in_mib = [round(one / MIB) for one in measured]
    sys.stdout.write(
        f"\n{attack.__name__}: {ROUNDS} rounds of {CLIENTS} connections, RSS before {before / MIB:.0f} MiB, {in_mib}\n"
    )
    assert max(measured[ROUNDS // 2 :]) - max(measured[: ROUNDS // 2]) < 16 * MIB
