"""The files that a single KRaft node of Kafka needs before it starts."""

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

CONFIG_FILE = "server.properties"
LOGGING_FILE = "log4j2.properties"
DATA_FOLDER = "data"

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": DATA_FOLDER,
    "auto.create.topics.enable": "false",
    "log.message.timestamp.type": "LogAppendTime",  # the append time is the arrival time
    "group.initial.rebalance.delay.ms": "0",
    # One node: one replica, and few partitions for Kafka's internal topics.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    # The page cache keeps records when the process dies; this limits what a power cut can lose.
    "log.flush.interval.ms": "10000",
    "log.flush.scheduler.interval.ms": "5000",
    # Memory and threads that suit a laptop.
    "log.cleaner.dedupe.buffer.size": str(32 << 20),
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
}

# After a crash the controller refuses the new broker until the session of the dead one, 9 s long, has expired.
_AFTER_CRASH_SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}

_LOGGING_SETTINGS = {
    "status": "error",
    "appender.file.type": "RollingFile",
    "appender.file.name": "file",
    "appender.file.layout.type": "PatternLayout",
    "appender.file.layout.pattern": "%d{ISO8601} %p %m (%c{1})%n",
    "appender.file.policies.type": "Policies",
    "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
    "appender.file.policies.size.size": "5MB",
    "appender.file.strategy.type": "DefaultRolloverStrategy",
    "appender.file.strategy.max": "1",
    "rootLogger.level": "info",
    "rootLogger.appenderRef.file.ref": "file",
    "logger.config.name": "org.apache.kafka.common.config.AbstractConfig",  # a thousand lines of settings
    "logger.config.level": "warn",
}


@dataclass(frozen=True)
class ListenerSecurity:
    """How a broker authenticates clients: its client listener, other listeners by name and port, and their settings."""

    listener: str = "PLAINTEXT"
    extra_listeners: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    jvm_properties: Mapping[str, str] = field(default_factory=dict)  # of the JVM


NO_SECURITY = ListenerSecurity()


@dataclass(frozen=True)
class BrokerListeners:
    """The loopback ports of a node: for clients, and for its own controller."""

    host: str
    client_port: int
    controller_port: int
    security: ListenerSecurity

    def to_settings(self) -> dict[str, str]:
        """The settings for these ports."""
        ports = {self.security.listener: self.client_port, **self.security.extra_listeners}
        client_listeners = ",".join(f"{name}://{self.host}:{port}" for name, port in ports.items())
        controller_address = f"{self.host}:{self.controller_port}"
        return {
            "listeners": f"{client_listeners},CONTROLLER://{controller_address}",
            "advertised.listeners": client_listeners,
            "controller.quorum.voters": f"1@{controller_address}",
            **self.security.settings,
        }


def logging_settings(file: str) -> dict[str, str]:
    """The logging settings of a Kafka program: one log file, and the one before it."""
    return _LOGGING_SETTINGS | {"appender.file.fileName": file, "appender.file.filePattern": f"{file}.%i"}


def prepare_folder(folder: Path, listeners: BrokerListeners, *, after_crash: bool) -> None:
    """Write the settings of this start, and format the data folder if it is new."""
    session_settings = _AFTER_CRASH_SETTINGS if after_crash else {}
    write_properties(folder / CONFIG_FILE, _SETTINGS | listeners.to_settings() | session_settings)
    write_properties(folder / LOGGING_FILE, logging_settings("broker.log"))
    _format_data_folder(folder / DATA_FOLDER)


def _format_data_folder(data_folder: Path) -> None:
    """Do what `kafka.tools.StorageTool format` does, without starting another JVM for seconds."""
    if (data_folder / "meta.properties").exists():
        return
    data_folder.mkdir(parents=True, exist_ok=True)
    checkpoint = files("headrace.embedded_servers").joinpath("bootstrap.checkpoint").read_bytes()
    (data_folder / "bootstrap.checkpoint").write_bytes(checkpoint)
    partial_file = data_folder / "meta.properties.new"
    properties = {"version": "1", "node.id": "1", "cluster.id": _new_id(), "directory.id": _new_id()}
    write_properties(partial_file, properties)
    partial_file.replace(data_folder / "meta.properties")  # last: from here on the folder counts as formatted


def _new_id() -> str:
    """A random id as Kafka writes it: a UUID in 22 characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def write_properties(path: Path, values: dict[str, str]) -> None:
    """Write settings in Java's properties format."""
    path.touch(mode=0o600)  # some of them may be secrets
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
