"""A ClickHouse server in its own folder that a test may stop, kill, restart and query over HTTP."""

import base64
import http.client
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.ports import HOST, free_port
from tests.telemetry.https_server import self_signed
from tests.waiting import SOCKET_S, patiently, wait_until

PASSWORD = "hush-hush"
SETTINGS = """<yandex>
  <logger><level>warning</level><console>1</console></logger>
  <http_port>{port}</http_port><https_port>{https_port}</https_port><listen_host>{host}</listen_host>
  <openSSL><server><certificateFile>{certificate}</certificateFile><privateKeyFile>{certificate}</privateKeyFile>
    <verificationMode>none</verificationMode></server></openSSL>
  <path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
  <mark_cache_size>67108864</mark_cache_size><users_config>{folder}/users.xml</users_config>
  <default_profile>default</default_profile><default_database>default</default_database>
</yandex>"""
USERS = """<yandex>
  <profiles><default/><readonly><readonly>1</readonly></readonly></profiles><quotas><default/></quotas>
  <users>
    <headrace><password>{password}</password><networks><ip>::/0</ip></networks>
      <profile>default</profile><quota>default</quota></headrace>
    <reader><password>{password}</password><networks><ip>::/0</ip></networks>
      <profile>readonly</profile><quota>default</quota></reader>
  </users>
</yandex>"""
ANSWER = "/?output_format_json_quote_64bit_integers=0&output_format_json_quote_denormals=1"


class OwnClickHouse:
    """What it has, it keeps when it is stopped, and when it is killed."""

    def __init__(self, folder: Path) -> None:
        beside = f"/usr/sbin:{Path(sys.executable).parent}"
        program = shutil.which("clickhouse-server") or shutil.which("clickhouse-server", path=beside)
        if program is None:
            pytest.skip("clickhouse-server is not installed: run `make setup`, or install it")
        self._folder, self.port, self.https_port = folder, free_port(), free_port()
        self.certificate = self_signed(folder)
        told = {"port": self.port, "https_port": self.https_port, "certificate": self.certificate}
        told |= {"host": HOST, "folder": folder, "password": PASSWORD}
        (folder / "config.xml").write_text(SETTINGS.format(**told))
        (folder / "users.xml").write_text(USERS.format(**told))
        self._command = [program, f"--config-file={folder / 'config.xml'}"]
        self.url = self.url_of("headrace")
        self._server: ChildProcess | None = None

    def url_of(self, user: str) -> str:
        return f"http://{user}:{PASSWORD}@{HOST}:{self.port}/default"

    def start(self) -> None:
        self._server = ChildProcess(self._command, folder=self._folder, output=self._folder / "clickhouse.log")
        self._server.start()
        wait_until(self._answers, 60, "ClickHouse to answer", self._said)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(grace_s=patiently(20))

    def kill(self) -> None:
        """kill -9, as a crash does."""
        if self._server is not None and self._server.pid is not None:
            os.kill(self._server.pid, signal.SIGKILL)
            self._server.wait(patiently(20))

    def tell(self, statement: str) -> bytes:
        """What it answers to a statement."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=SOCKET_S)
        who = base64.b64encode(f"headrace:{PASSWORD}".encode()).decode()
        try:
            connection.request("POST", ANSWER, statement.encode(), {"authorization": f"Basic {who}"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, body.decode()
        return body

    def ask(self, question: str) -> list[Any]:
        """The rows of an answer."""
        rows: list[Any] = json.loads(self.tell(f"{question} FORMAT JSON"))["data"]
        return rows

    def _answers(self) -> bool:
        try:
            return bool(self.ask("SELECT 1 AS one"))
        except OSError:
            return False

    def _said(self) -> str:
        return (self._folder / "clickhouse.log").read_text()[-3000:]
