import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from headrace.embedded_servers.broker import BrokerFailed, DiskFullError, EmbeddedBroker
from headrace.embedded_servers.child_process import ProcessId
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.embedded_servers.ports import PortInUseError, is_listening
from headrace.embedded_servers.server_folder import StateFolderInUseError
from tests.waiting import patiently, wait_until

QUIET = {"log_level": 0, "error_cb": lambda _error: None}


def create_topic(address: str) -> str:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(patiently(30))
    return topic


def produce(address: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, **QUIET})
    failed: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: error and failed.append(error))
    assert producer.flush(30) == 0
    assert not failed


def consume(address: str, topic: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": address, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | QUIET)
    consumer.subscribe([topic])
    values: list[str] = []
    wait_until(
        lambda: values.extend(m.value().decode() for m in consumer.consume(100, 0.1)) or len(values) >= count,
        limit_s=30,
        what=f"{count} records of {topic}",
    )
    consumer.close()
    return values


def test_records_are_stamped_with_the_time_of_their_arrival(broker):
    topic = create_topic(broker.address)
    admin = AdminClient({"bootstrap.servers": broker.address, **QUIET})
    resource = ConfigResource("topic", topic)
    settings = admin.describe_configs([resource])[resource].result(patiently(30))
    assert settings["message.timestamp.type"].value == "LogAppendTime"


def test_topics_are_not_made_by_accident(broker):
    consumer_topics = AdminClient({"bootstrap.servers": broker.address, **QUIET}).list_topics("nobody-made-me")
    assert consumer_topics.topics["nobody-made-me"].error is not None


def test_the_data_folder_is_formatted_as_kafkas_own_tool_does_it(tmp_path, broker):
    config = (broker.folder / "server.properties").read_text().replace("log.dirs=data", f"log.dirs={tmp_path}/data")
    (tmp_path / "server.properties").write_text(config)
    tool = ["kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", "server.properties"]
    classes = ":".join(map(str, jar_paths("broker")))
    subprocess.run([find_java().command, "-cp", classes, *tool], cwd=tmp_path, check=True, capture_output=True)

    def features(data: Path) -> list[bytes]:
        return re.findall(rb"[a-z.]+\.version.{2}", (data / "bootstrap.checkpoint").read_bytes(), re.DOTALL)

    def names(data: Path) -> set[str]:
        lines = (data / "meta.properties").read_text().splitlines()
        return {line.partition("=")[0] for line in lines if not line.startswith("#")}

    assert features(broker.folder / "data") == features(tmp_path / "data") != []
    assert names(broker.folder / "data") == names(tmp_path / "data")


def test_a_clean_stop_ends_the_process_frees_the_port_and_keeps_the_records(tmp_path):
    broker = EmbeddedBroker(tmp_path, port=0)
    with broker:
        topic = create_topic(broker.address)
        produce(broker.address, topic, ["a", "b"])
        process = ProcessId.from_pid(broker.pid)
    assert not process.is_alive()
    assert not broker.is_alive()
    assert not is_listening("127.0.0.1", broker.port)
    assert not (broker.folder / "broker.pid").exists()
    with broker:
        assert consume(broker.address, topic, 2) == ["a", "b"]


def test_after_kill_9_of_the_broker_a_restart_keeps_every_acknowledged_record(tmp_path):
    broker = EmbeddedBroker(tmp_path, port=0)
    with broker:
        topic, sent = create_topic(broker.address), [str(number) for number in range(500)]
        produce(broker.address, topic, sent)
        os.kill(broker.pid, signal.SIGKILL)
        wait_until(lambda: not broker.is_alive(), limit_s=10, what="the broker to die")
        with pytest.raises(BrokerFailed, match=f"{broker.address} has ended"):
            broker.raise_if_ended()
        broker.stop()
        broker.start()
        assert consume(broker.address, topic, 500) == sent


PARENT = """
import sys, signal
from headrace.embedded_servers.broker import EmbeddedBroker
broker = EmbeddedBroker(sys.argv[1], port=0)
broker.start()
print(broker.pid, broker.address, flush=True)
signal.pause()
"""


def start_in_a_parent_of_its_own(state: Path) -> tuple[subprocess.Popen[str], ProcessId, str]:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, state], stdout=subprocess.PIPE, text=True)
    pid, address = parent.stdout.readline().split()
    return parent, ProcessId.from_pid(int(pid)), address


def kill_9(parent: subprocess.Popen[str]) -> None:
    parent.kill()
    parent.wait()
    parent.stdout.close()


def test_kill_9_of_the_parent_leaves_no_orphan(tmp_path):
    parent, broker, _address = start_in_a_parent_of_its_own(tmp_path)
    assert broker.is_alive()
    kill_9(parent)
    assert broker.wait(patiently(30))


def test_a_broker_left_over_by_a_crash_is_taken_over_with_its_records(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.embedded_servers.broker._STOP_GRACE_S", 2)
    parent, left_over, address = start_in_a_parent_of_its_own(tmp_path)
    topic = create_topic(address)
    produce(address, topic, ["kept"])
    os.kill(left_over.pid, signal.SIGSTOP)  # it cannot end by itself, and still holds the data folder
    kill_9(parent)
    with EmbeddedBroker(tmp_path, port=int(address.rpartition(":")[2])) as broker:
        assert not left_over.is_alive()
        assert consume(broker.address, topic, 1) == ["kept"]


def test_a_process_that_only_shares_the_recorded_pid_is_left_alone(tmp_path):
    bystander = subprocess.Popen(["sleep", "60"])
    (tmp_path / "broker").mkdir()
    record = {"pid": bystander.pid, "started": "another boot/1"}
    (tmp_path / "broker" / "broker.pid").write_text(json.dumps(record))
    with EmbeddedBroker(tmp_path, port=0):
        assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_pid_file_cut_short_by_a_crash_is_no_hindrance(tmp_path):
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "broker.pid").write_text('{"pid": 12')
    with EmbeddedBroker(tmp_path, port=0) as broker:
        assert broker.is_alive()


def test_a_state_folder_in_use_is_refused_and_its_broker_left_running(tmp_path):
    with EmbeddedBroker(tmp_path, port=0) as first:
        with pytest.raises(StateFolderInUseError, match="--state"):
            EmbeddedBroker(tmp_path, port=0).start()
        assert first.is_alive()


def test_a_taken_port_is_said_with_its_holder_and_the_remedy(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"Port {port} .* \(process {os.getpid()}\).*--broker-port"):
            EmbeddedBroker(tmp_path, port=port).start()


def test_a_broker_that_dies_at_start_is_shown_with_its_last_words(tmp_path):
    meta = tmp_path / "broker" / "data" / "meta.properties"
    meta.parent.mkdir(parents=True)
    meta.write_text("version=1\nnode.id=7\ncluster.id=x\n")
    with pytest.raises(BrokerFailed, match=r"(?s)has ended.*broker\.log.*node"):
        EmbeddedBroker(tmp_path, port=0).start()


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "broker").write_text("a file, not a folder")
    with pytest.raises(BrokerFailed, match="choose another with --state"):
        EmbeddedBroker(tmp_path, port=0).start()


def test_the_broker_outlives_the_thread_that_started_it(tmp_path):
    broker = EmbeddedBroker(tmp_path, port=0)
    thread = threading.Thread(target=broker.start)
    thread.start()
    thread.join()
    topic = create_topic(broker.address)
    produce(broker.address, topic, ["still here"])
    assert broker.is_alive()
    broker.stop()


def test_a_broken_archive_of_classes_is_no_hindrance(tmp_path, monkeypatch):
    archive = tmp_path / "broker.jsa"
    archive.write_bytes(b"rubbish" * 1000)
    monkeypatch.setattr("headrace.embedded_servers.broker.broker_archive_path", lambda _java, _jars: archive)
    with EmbeddedBroker(tmp_path, port=0) as broker:
        assert broker.is_alive()


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 80 MB; only root can mount one."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", tmp_path], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small disk to fill can only be mounted by root")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_full_disk_at_start_is_said(small_disk):
    (small_disk / "filler").write_bytes(bytes(40 << 20))
    with pytest.raises(DiskFullError, match=r"\d+ MB are free under .*--state"):
        EmbeddedBroker(small_disk, port=0).start()


def test_a_disk_that_fills_up_while_the_broker_runs_is_said(small_disk):
    with EmbeddedBroker(small_disk, port=0) as broker:
        topic = create_topic(broker.address)
        producer = Producer({"bootstrap.servers": broker.address, "message.timeout.ms": 60000, **QUIET})

        def fill() -> bool:
            for _ in range(50):
                producer.produce(topic, os.urandom(50_000))
            producer.flush(2)
            return not broker.is_alive()

        wait_until(fill, limit_s=60, what="the broker to run out of disk")
        with pytest.raises(DiskFullError, match="Make room"):
            broker.raise_if_ended()
