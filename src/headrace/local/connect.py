"""The embedded Connect: a real Kafka Connect with Debezium's connector for PostgreSQL, as a child process.

What it knows is in the log: which connectors there are, and how far each has read. So it may be killed at any time.
Its HTTP is on loopback, and answers who knows the password of this run; passwords of databases, and who we are to a
broker that asks, are in its environment alone, and its settings name the variables.
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

from headrace.errors import HeadraceError
from headrace.local.child import Child
from headrace.local.folder import OwnFolder
from headrace.local.jars import Progress, jar_paths, silent
from headrace.local.java import find_java
from headrace.local.kraft import LOGGING, logging_to, write_properties
from headrace.local.ports import HOST, free_port
from headrace.log.dialects import SECRET_WORDS, java_words, jvm_words
from headrace.log.security import security_of

SECRETS = "HEADRACE_CAPTURE_"  # what variables with secrets begin with
START_LIMIT_S = 300
STOP_GRACE_S = 20
ASK_SECONDS = 10
LOOK_EVERY_S = 0.1
_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_CONFIG, _LOGIN, _USERS = "connect.properties", "login.conf", "users.properties"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1")
_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension"
_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_SETTINGS = {
    **{f"{part}.converter": _JSON for part in ("key", "value")},
    **{f"{part}.converter.schemas.enable": "false" for part in ("key", "value")},
    **{f"{kept}.storage.replication.factor": "-1" for kept in ("offset", "config", "status")},  # as the broker has it
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "offset.flush.interval.ms": "1000",  # what a crash finds after it is delivered again
    "plugin.discovery": "service_load",
    "scheduled.rebalance.max.delay.ms": "0",  # nobody else will come back for what a crash left
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "producer.linger.ms": "0",
    "producer.compression.type": "lz4",
    "config.providers": "env",
    "config.providers.env.class": _PROVIDER,
    "config.providers.env.param.allowlist.pattern": f"{SECRETS}.*",
    "rest.extension.classes": f"{_AUTH}.BasicAuthSecurityRestExtension",
}
_CLIENTS = ("", "producer.", "consumer.", "admin.")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback is behind no proxy


class ConnectFailed(HeadraceError):
    """Connect ended on its own, did not start, or refused what it was asked, with what it said."""


def topic_of(app: str, kept: str) -> str:
    """The topic in which the Connect of an app keeps its offsets, configs or status."""
    return f"headrace.connect.{app}.{kept}"


class Connect:
    """A Kafka Connect on loopback for one app, whose settings and log are in STATE/connect."""

    def __init__(
        self,
        app: str,
        broker: str,
        state_dir: Path | str,
        passwords: Mapping[str, str],
        progress: Progress = silent,
    ) -> None:
        """`passwords` has the environment variables, each beginning with SECRETS, that connectors name."""
        self._own = OwnFolder(state_dir, "connect")
        self.folder = self._own.path
        self._app, self._broker, self._passwords, self._progress = app, broker, dict(passwords), progress
        self._port, self._password = 0, ""
        self._child: Child | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._child.alive() else None

    @property
    def log(self) -> Path:
        return self._own.log

    def hold(self) -> None:
        """Keep every other Headrace off this folder until we stop or die, and end what a crash left running."""
        self._own.hold("captures changes with", mode=0o700)
        self.folder.chmod(0o700)
        left_over = self._own.recorded()
        if left_over and left_over.alive():
            left_over.stop(STOP_GRACE_S)

    def start(self) -> None:
        """Start it and return once it answers."""
        java, jars = find_java(), jar_paths("connect", self._progress)
        if not self._own.is_held:
            self.hold()
        try:
            self._prepare()
            classes = ":".join(map(str, jars))
            files = {"log4j2.configurationFile": LOGGING, "java.security.auth.login.config": _LOGIN}
            properties = [f"-D{name}={value}" for name, value in (files | jvm_words()).items()]
            command = [str(java.command), *_JVM, *properties, "-cp", classes, _MAIN, _CONFIG]
            self._child = Child(command, folder=self.folder, output=self._own.output)
            self._child.start({**os.environ, **self._passwords, **_secrets(self._broker)})
            self._own.record(self._child)
            self._wait_until_started()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it; what it has read so far is in the log."""
        if self._child:
            self._child.stop(STOP_GRACE_S)
            self._child = None
        self._own.let_go()

    def check(self) -> None:
        """Raise what ended it, if it has ended on its own."""
        if self._child and not self._child.alive():
            raise self._failure("has ended")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What it answers to a request of its REST interface; None where it has nothing of that name."""
        login = b64encode(f"headrace:{self._password}".encode()).decode()
        request = urllib.request.Request(
            f"http://{HOST}:{self._port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Basic {login}"},
            method=method,
        )
        try:
            with _DIRECT.open(request, timeout=ASK_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refused:
            if refused.code == 404:
                return None
            said = refused.read().decode(errors="replace")[:500]
            raise ConnectFailed(f"Connect refused {method} {path}: {refused.code} {said}") from refused
        except OSError as away:
            raise ConnectFailed(f"Connect does not answer {method} {path}: {away}. Its log is {self.log}.") from away

    def last_words(self) -> str:
        return self._own.last_words()

    def _prepare(self) -> None:
        self._port, self._password = free_port(), secrets.token_urlsafe(24)
        self._own.turn_log()
        own = _credentials(self._broker) | {
            "bootstrap.servers": self._broker,
            "group.id": f"headrace-connect-{self._app}",
            "listeners": f"http://{HOST}:{self._port}",
            **{f"{kept}.storage.topic": topic_of(self._app, f"{kept}s") for kept in ("offset", "config")},
            "status.storage.topic": topic_of(self._app, "status"),
        }
        write_properties(self.folder / _CONFIG, _SETTINGS | own)
        write_properties(self.folder / LOGGING, logging_to("connect.log"))
        users = self.folder / _USERS
        users.touch(mode=0o600)
        users.write_text(f"headrace={self._password}\n")
        module = f'{_AUTH}.PropertyFileLoginModule required file="{users}";'
        (self.folder / _LOGIN).write_text(f"KafkaConnect {{ {module} }};\n")

    def _wait_until_started(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._answers():
            self.check()
            if time.monotonic() > deadline:
                raise self._failure(f"did not start within {START_LIMIT_S} s")
            time.sleep(LOOK_EVERY_S)

    def _answers(self) -> bool:
        """Whether it knows of its connectors: it does once it has read its topics."""
        try:
            return self.ask("GET", "/connectors") is not None
        except ConnectFailed:
            return False

    def _failure(self, what: str) -> ConnectFailed:
        return ConnectFailed(f"Connect {what}. Its log is {self.log}. It ends with:\n{self.last_words()}")


def _credentials(broker: str) -> dict[str, str]:
    """Who Connect and its clients are to a broker that asks, in one line each; of a secret, its variable."""
    lines = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in _words(broker).items()}
    lines |= {name: f"${{env:{_variable(name)}}}" for name in lines.keys() & SECRET_WORDS}
    return {f"{client}{name}": line for client in _CLIENTS for name, line in lines.items()}


def _secrets(broker: str) -> dict[str, str]:
    """The variables of what is secret to a broker that asks."""
    return {_variable(name): value for name, value in _words(broker).items() if name in SECRET_WORDS}


def _variable(word: str) -> str:
    return SECRETS + word.replace(".", "_")  # in small letters: those of databases are in capitals


def _words(broker: str) -> dict[str, str]:
    security = security_of(broker)
    return {} if security is None else java_words(security)
