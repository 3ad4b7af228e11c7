"""A broker that is busy is waited for; one that is not there is named soon."""

import os
import signal
import socket
import threading
import time

import pytest

from headrace.local.broker import Broker
from headrace.local.ports import HOST, free_port
from headrace.log import connect
from headrace.log.connect import admin_client, metadata
from headrace.log.strangers import BrokerUnreachable


def test_a_broker_that_has_taken_a_connection_is_waited_for(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "REACH_SECONDS", 0.2)
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    going_on = threading.Timer(1.5, os.kill, (broker.pid, signal.SIGCONT))
    going_on.start()
    try:
        assert metadata(admin_client(broker.address), broker.address).brokers
    finally:
        going_on.join()


def test_one_that_takes_connections_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "REACH_SECONDS", 0.2)
    with socket.create_server((HOST, 0)) as silent:
        address = f"{HOST}:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(BrokerUnreachable):
            metadata(admin_client(address), address, timeout=1.0)
        assert time.monotonic() - began >= 0.9


def test_where_nobody_listens_the_rest_of_the_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "REACH_SECONDS", 0.2)
    address = f"{HOST}:{free_port()}"
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable):
        metadata(admin_client(address), address, timeout=600)
    assert time.monotonic() - began < 300
