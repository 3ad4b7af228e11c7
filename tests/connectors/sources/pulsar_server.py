"""A Pulsar of one node, with the actions of a producer and of an administrator."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pulsar
import pytest

from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.jars import cache_dir, faulty_jars, locked_jars
from headrace.embedded_servers.java import find_java
from headrace.embedded_servers.ports import HOST, free_port
from tests.waiting import patiently, wait_until

SMALL = "-Xms128m -Xmx384m -XX:MaxDirectMemorySize=256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
KEY = b"a key that only the tests have.."
SETTINGS = """
bindAddress={host}
advertisedAddress={host}
brokerServicePort={port}
webServicePort={web_port}
defaultNumberOfNamespaceBundles=1
loadBalancerEnabled=false
transactionCoordinatorEnabled=false
allowAutoTopicCreation=false
managedLedgerMinLedgerRolloverTimeMinutes=0
defaultRetentionTimeInMinutes={minutes}
defaultRetentionSizeInMB={minutes}
"""
GUARDED = """
authenticationEnabled=true
authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken
tokenSecretKey=data:;base64,{key}
superUserRoles=me
brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken
brokerClientAuthenticationParameters=token:{token}
"""


def token_of(role: str, key: bytes = KEY) -> str:
    """A token that a server with this key accepts for a role."""
    said = ".".join(_web64(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": role}))
    return f"{said}.{_web64(hmac.digest(key, said.encode(), hashlib.sha256))}"


def _web64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


class OwnPulsar:
    """A server of our own, which may be stopped and started again: it has what it had."""

    def __init__(self, folder: Path, *, guarded: bool = False, retention_minutes: int = -1) -> None:
        self._program, self._folder = _installed() / "bin" / "pulsar", folder
        self._port, self._web_port, self._token = free_port(), free_port(), token_of("me") if guarded else None
        self._bookie_port = free_port()
        self._settings = folder / "standalone.conf"
        written = (self._program.parents[1] / "conf" / "standalone.conf").read_text()
        ports = {"port": self._port, "web_port": self._web_port}
        written += SETTINGS.format(host=HOST, minutes=retention_minutes, **ports)
        if guarded:
            written += GUARDED.format(key=base64.b64encode(KEY).decode(), token=self._token)
        self._settings.write_text(written)
        self.url = f"pulsar://{HOST}:{self._port}"

    def start(self) -> None:
        places = [f"--metadata-dir={self._folder / 'metadata'}", f"--bookkeeper-dir={self._folder / 'bookkeeper'}"]
        flags = ["--no-functions-worker", "--no-stream-storage", f"--bookkeeper-port={self._bookie_port}"]
        told = {
            "JAVA_HOME": str(find_java().home),
            "PULSAR_MEM": SMALL,
            "PULSAR_GC": "-XX:+UseSerialGC",
            "PULSAR_STANDALONE_CONF": str(self._settings),
            "PULSAR_LOG_DIR": str(self._folder),
            "PULSAR_LOG_LEVEL": "warn",
        }
        command = [str(self._program), "standalone", *flags, *places]
        self._server = ChildProcess(command, folder=self._folder, output=self._folder / "pulsar.log")
        self._server.start(os.environ | told)
        wait_until(self._is_ready, 90, "Pulsar to answer", (self._folder / "pulsar.log").read_text)

    def stop(self) -> None:
        self._server.stop(grace_s=patiently(20))

    def add_topic(self, topic: str, partitions: int | None = None) -> None:
        if partitions is None:
            self._ask("PUT", _path(topic))
        else:
            self._ask("PUT", f"{_path(topic)}/partitions", partitions)

    def delete_topic(self, topic: str) -> None:
        self._ask("DELETE", f"{_path(topic)}?force=true")

    def unload(self, topic: str) -> None:
        """Close a topic's ledger, as when a broker hands the topic over: it continues in another."""
        self._ask("PUT", f"{_path(topic)}/unload")

    def trimmed(self, topic: str) -> bool:
        """Apply retention; returns whether a topic has only its last ledger."""
        self._ask("POST", f"{_path(topic)}/trim")
        return len(json.loads(self._ask("GET", f"{_path(topic)}/internalStats"))["ledgers"]) == 1

    def publish(
        self, topic: str, values: Iterable[bytes], headers: dict[str, str] | None = None, *, batched: bool = True
    ) -> None:
        """Publish in order, each by the key in it, and wait until all are kept."""
        client = pulsar.Client(self.url, self._token and pulsar.AuthenticationToken(self._token), logger=QUIET)
        try:
            producer = client.create_producer(
                topic, batching_enabled=batched, batching_max_publish_delay_ms=5, block_if_queue_full=True
            )
            for value in values:
                producer.send_async(value, lambda *_: None, headers, partition_key=_key(value))
            producer.flush()
        finally:
            client.close()

    def _is_ready(self) -> bool:
        assert self._server.is_alive(), (self._folder / "pulsar.log").read_text()[-2000:]
        try:
            return b"public/default" in self._ask("GET", "namespaces/public")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def _ask(self, method: str, path: str, body: object = None) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        said = None if body is None else json.dumps(body).encode()
        url = f"http://{HOST}:{self._web_port}/admin/v2/{path}"
        request = urllib.request.Request(url, said, headers, method=method)  # our own
        with urllib.request.urlopen(request, timeout=20) as response:
            answer: bytes = response.read()
        return answer


QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)


def _path(topic: str) -> str:
    return topic.replace("://", "/")


def _key(value: bytes) -> str | None:
    try:
        return str(json.loads(value)["card"])
    except ValueError:
        return None


def _installed() -> Path:
    """Pulsar's folder, unpacked once; skips the test if Pulsar has not been fetched."""
    (archive,), cache = locked_jars("pulsar"), cache_dir()
    if faulty_jars((archive,), cache):
        pytest.skip("Pulsar is not installed: run `python3 tools/setup.py pulsar`")
    home = cache.parent / "pulsar" / f"apache-pulsar-{archive.version}"
    if not home.is_dir():
        home.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as draft, tarfile.open(cache / archive.file_name) as packed:
            packed.extractall(draft, filter="data")
            with contextlib.suppress(OSError):  # another run of the tests was quicker
                (Path(draft) / home.name).rename(home)
    return home
