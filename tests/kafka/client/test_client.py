"""The client waits for a busy broker, and soon reports one that does not exist."""

import os
import signal
import socket
import threading
import time

import pytest

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.client import client
from headrace.kafka.client.client import create_admin_client, fetch_metadata
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable


def test_a_broker_that_has_taken_a_connection_is_waited_for(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_SECONDS", 0.2)
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    going_on = threading.Timer(1.5, os.kill, (broker.pid, signal.SIGCONT))
    going_on.start()
    try:
        assert fetch_metadata(create_admin_client(broker.address), broker.address).brokers
    finally:
        going_on.join()


def test_one_that_takes_connections_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_SECONDS", 0.2)
    with socket.create_server((HOST, 0)) as silent:
        address = f"{HOST}:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(BrokerUnreachable):
            fetch_metadata(create_admin_client(address), address, timeout=1.0)
        assert time.monotonic() - began >= 0.9


def test_where_nobody_listens_the_rest_of_the_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_SECONDS", 0.2)
    address = f"{HOST}:{free_port()}"
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable):
        fetch_metadata(create_admin_client(address), address, timeout=600)
    assert time.monotonic() - began < 300
