"""The embedded Kafka Connect with Debezium's connector for PostgreSQL, as a child process.

Its state is in the log: the connectors, and the offsets each has read. So it may be killed at any time.
Its REST interface is on loopback and needs the password of this run; passwords of databases and the broker's
credentials are in its environment alone, and its settings refer to the variables.
"""

import json
import os
import secrets
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.jars import ProgressCallback, ignore_progress, jar_paths
from headrace.embedded_servers.java import find_java
from headrace.embedded_servers.kraft import LOGGING_FILE, logging_settings, write_properties
from headrace.embedded_servers.ports import HOST, free_port
from headrace.embedded_servers.server_folder import ServerFolder
from headrace.errors import HeadraceError
from headrace.kafka.client.security import find_security_config
from headrace.kafka.client.security_properties import SECRET_PROPERTIES, java_properties, jvm_properties

SECRET_VARIABLE_PREFIX = "HEADRACE_CAPTURE_"  # noqa: S105 - the prefix of variables with secrets
START_LIMIT_S = 300
STOP_GRACE_S = 20
REQUEST_TIMEOUT_S = 10
LOOK_EVERY_S = 0.1
_MAIN_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
_CONFIG_FILE, _LOGIN_FILE, _USERS_FILE = "connect.properties", "login.conf", "users.properties"
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1")
_AUTH_PACKAGE = "org.apache.kafka.connect.rest.basic.auth.extension"
_CONFIG_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_SETTINGS = {
    **{f"{part}.converter": _JSON_CONVERTER for part in ("key", "value")},
    **{f"{part}.converter.schemas.enable": "false" for part in ("key", "value")},
    **{
        f"{topic_kind}.storage.replication.factor": "-1" for topic_kind in ("offset", "config", "status")
    },  # as on the broker
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "offset.flush.interval.ms": "1000",  # events after the last flush are delivered again after a crash
    "plugin.discovery": "service_load",
    "scheduled.rebalance.max.delay.ms": "0",  # no other worker rejoins after a crash
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "producer.linger.ms": "0",
    "producer.compression.type": "lz4",
    "config.providers": "env",
    "config.providers.env.class": _CONFIG_PROVIDER,
    "config.providers.env.param.allowlist.pattern": f"{SECRET_VARIABLE_PREFIX}.*",
    "rest.extension.classes": f"{_AUTH_PACKAGE}.BasicAuthSecurityRestExtension",
}
_CLIENT_PREFIXES = ("", "producer.", "consumer.", "admin.")
_NO_PROXY_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy


class KafkaConnectFailed(HeadraceError):
    """Connect ended by itself, did not start, or refused a request; the message has its output or response."""


def connect_topic(app: str, topic_kind: str) -> str:
    """The topic in which an app's Connect keeps its offsets, configs or status."""
    return f"headrace.connect.{app}.{topic_kind}"


class EmbeddedKafkaConnect:
    """Kafka Connect on loopback for one app, with its settings and log in STATE/connect."""

    def __init__(
        self,
        app: str,
        broker: str,
        state_dir: Path | str,
        passwords: Mapping[str, str],
        progress: ProgressCallback = ignore_progress,
    ) -> None:
        """`passwords` has the environment variables, each with the prefix SECRETS, that connectors refer to."""
        self._server_folder = ServerFolder(state_dir, "connect")
        self.folder = self._server_folder.path
        self._app_name, self._broker, self._passwords, self._progress = app, broker, dict(passwords), progress
        self._rest_port, self._rest_password = 0, ""
        self._child: ChildProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._child.is_alive() else None

    @property
    def log(self) -> Path:
        return self._server_folder.log

    def lock_folder(self) -> None:
        """Lock this folder against other Headrace processes until stop or death, and end what a crash left running."""
        self._server_folder.lock("captures changes with", mode=0o700)
        self.folder.chmod(0o700)
        orphan = self._server_folder.recorded_process()
        if orphan and orphan.is_alive():
            orphan.stop(STOP_GRACE_S)

    def start(self) -> None:
        """Start it and return once it answers."""
        java, jars = find_java(), jar_paths("connect", self._progress)
        if not self._server_folder.is_locked:
            self.lock_folder()
        try:
            self._write_config()
            classpath = ":".join(map(str, jars))
            config_files = {"log4j2.configurationFile": LOGGING_FILE, "java.security.auth.login.config": _LOGIN_FILE}
            properties = [f"-D{name}={value}" for name, value in (config_files | jvm_properties()).items()]
            command = [str(java.command), *_JVM_OPTIONS, *properties, "-cp", classpath, _MAIN_CLASS, _CONFIG_FILE]
            self._child = ChildProcess(command, folder=self.folder, output=self._server_folder.output)
            self._child.start({**os.environ, **self._passwords, **_secret_variables(self._broker)})
            self._server_folder.record_process(self._child)
            self._wait_until_started()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it; what it has read so far is in the log."""
        if self._child:
            self._child.stop(STOP_GRACE_S)
            self._child = None
        self._server_folder.unlock()

    def raise_if_ended(self) -> None:
        """Raise the reason why it has ended by itself, if it has."""
        if self._child and not self._child.is_alive():
            raise self._failure("has ended")

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The response of its REST interface; None for an unknown name."""
        credentials = b64encode(f"headrace:{self._rest_password}".encode()).decode()
        request = urllib.request.Request(
            f"http://{HOST}:{self._rest_port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Basic {credentials}"},
            method=method,
        )
        try:
            with _NO_PROXY_OPENER.open(request, timeout=REQUEST_TIMEOUT_S) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as http_error:
            if http_error.code == 404:
                return None
            detail = http_error.read().decode(errors="replace")[:500]
            raise KafkaConnectFailed(f"Connect refused {method} {path}: {http_error.code} {detail}") from http_error
        except OSError as network_error:
            raise KafkaConnectFailed(
                f"Connect does not answer {method} {path}: {network_error}. Its log is {self.log}."
            ) from network_error

    def log_tail(self) -> str:
        return self._server_folder.log_tail()

    def _write_config(self) -> None:
        self._rest_port, self._rest_password = free_port(), secrets.token_urlsafe(24)
        self._server_folder.rotate_logs()
        settings = _client_settings(self._broker) | {
            "bootstrap.servers": self._broker,
            "group.id": f"headrace-connect-{self._app_name}",
            "listeners": f"http://{HOST}:{self._rest_port}",
            **{
                f"{topic_kind}.storage.topic": connect_topic(self._app_name, f"{topic_kind}s")
                for topic_kind in ("offset", "config")
            },
            "status.storage.topic": connect_topic(self._app_name, "status"),
        }
        write_properties(self.folder / _CONFIG_FILE, _SETTINGS | settings)
        write_properties(self.folder / LOGGING_FILE, logging_settings("connect.log"))
        users_file = self.folder / _USERS_FILE
        users_file.touch(mode=0o600)
        users_file.write_text(f"headrace={self._rest_password}\n")
        login_module = f'{_AUTH_PACKAGE}.PropertyFileLoginModule required file="{users_file}";'
        (self.folder / _LOGIN_FILE).write_text(f"KafkaConnect {{ {login_module} }};\n")

    def _wait_until_started(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._is_answering():
            self.raise_if_ended()
            if time.monotonic() > deadline:
                raise self._failure(f"did not start within {START_LIMIT_S} s")
            time.sleep(LOOK_EVERY_S)

    def _is_answering(self) -> bool:
        """Whether it can list its connectors: it can once it has read its topics."""
        try:
            return self.request("GET", "/connectors") is not None
        except KafkaConnectFailed:
            return False

    def _failure(self, what: str) -> KafkaConnectFailed:
        return KafkaConnectFailed(f"Connect {what}. Its log is {self.log}. It ends with:\n{self.log_tail()}")


def _client_settings(broker: str) -> dict[str, str]:
    """The security settings of Connect and its clients; secrets refer to environment variables."""
    settings = {
        name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in _security_settings(broker).items()
    }
    settings |= {name: f"${{env:{_variable_name(name)}}}" for name in settings.keys() & SECRET_PROPERTIES}
    return {f"{client}{name}": setting for client in _CLIENT_PREFIXES for name, setting in settings.items()}


def _secret_variables(broker: str) -> dict[str, str]:
    """The environment variables with the broker's secrets."""
    return {
        _variable_name(name): value for name, value in _security_settings(broker).items() if name in SECRET_PROPERTIES
    }


def _variable_name(setting_name: str) -> str:
    return SECRET_VARIABLE_PREFIX + setting_name.replace(
        ".", "_"
    )  # in lower case: those of databases are in upper case


def _security_settings(broker: str) -> dict[str, str]:
    security = find_security_config(broker)
    return {} if security is None else java_properties(security)
