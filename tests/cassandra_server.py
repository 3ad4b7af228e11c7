"""A Cassandra server that a test may kill; a restart finds it empty or with its data."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.policies import DCAwareRoundRobinPolicy

from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.jars import cache_dir, faulty_jars, locked_jars
from headrace.embedded_servers.java import find_java
from headrace.embedded_servers.ports import HOST, free_port
from tests.waiting import patiently, wait_until

KEYSPACE = "headrace"
SMALL = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# What Cassandra reaches into, of a Java 17.
EXPORTED = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/java.lang.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)
OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
SETTINGS = """
cluster_name: headrace
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
{sync}
listen_address: {host}
storage_port: {storage_port}
rpc_address: {host}
native_transport_port: {port}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "{host}:{storage_port}"
"""
SYNC = {True: "commitlog_sync: batch", False: "commitlog_sync: periodic\ncommitlog_sync_period: 10s"}
LOGGING = """
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class OwnCassandra:
    """One node on loopback with a keyspace of one copy; with `lasting`, it has what it had."""

    def __init__(self, folder: Path, *, lasting: bool = False) -> None:
        self._lasting = lasting
        self._jars, self._folder, self._port = _installed(), folder / "cassandra", free_port()
        self._storage_port = free_port(excluded=self._port)
        self.url = f"cassandra://{HOST}:{self._port}/{KEYSPACE}"
        self._server: ChildProcess | None = None

    def start(self) -> None:
        if not self._lasting:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(exist_ok=True)
        self._server = ChildProcess(self._command(), folder=self._folder, output=self._folder / "cassandra.log")
        self._server.start()
        wait_until(self._has_keyspace, 120, "Cassandra to answer")

    def _command(self) -> list[str]:
        settings, logging = self._folder / "cassandra.yaml", self._folder / "logback.xml"
        ports = {"port": self._port, "storage_port": self._storage_port}
        settings.write_text(SETTINGS.format(host=HOST, sync=SYNC[self._lasting], **ports))
        logging.write_text(LOGGING)
        told = (
            f"-Dcassandra.config={settings.as_uri()}",
            f"-Dcassandra.storagedir={self._folder}",
            f"-Dlogback.configurationFile={logging}",
            "-Djdk.attach.allowAttachSelf=true",
            "-Dcassandra-foreground=yes",
            "-Dcassandra.ring_delay_ms=0",  # there is no other node to be waited for
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        )
        flags = [f"--add-exports={one}=ALL-UNNAMED" for one in EXPORTED]
        flags += [f"--add-opens={one}=ALL-UNNAMED" for one in OPENED]
        classes = ("-cp", ":".join(map(str, self._jars)), "org.apache.cassandra.service.CassandraDaemon")
        return [str(find_java().command), *SMALL, *flags, *told, *classes]

    def stop(self) -> None:
        """At once, as a crash does."""
        if self._server is not None:
            self._server.stop(grace_s=0)
            self._server.wait(patiently(10))

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session of an administrator."""
        nearest = ExecutionProfile(DCAwareRoundRobinPolicy())
        profiles = {EXEC_PROFILE_DEFAULT: nearest}
        cluster = Cluster([HOST], port=self._port, protocol_version=4, execution_profiles=profiles)
        try:
            yield cluster.connect()
        finally:
            cluster.shutdown()

    def _has_keyspace(self) -> bool:
        """Create the keyspace, as an administrator."""
        assert self._server is not None
        assert self._server.is_alive(), (self._folder / "cassandra.log").read_text()[-2000:]
        try:
            with self.session() as session:
                session.execute(
                    f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} "
                    "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
                )
        except NoHostAvailable:
            return False
        return True


def _installed() -> list[Path]:
    """The jars of Cassandra; skips the test if they have not been fetched."""
    jars, cache = locked_jars("cassandra"), cache_dir()
    if faulty_jars(jars, cache):
        pytest.skip("Cassandra is not installed: run `python3 tools/setup.py cassandra`")
    return [cache / jar.file_name for jar in jars]
