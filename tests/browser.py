"""A headless browser, controlled over a pipe with the Chrome DevTools Protocol."""

import base64
import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from tests.waiting import patiently

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--window-size=1400,1100")


def chromium() -> str:
    """The path of an installed browser; skips the test if there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no browser: install Debian's chromium")
    return found


class Browser:
    """One page in its own browser; records errors and warnings of its console."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.console: list[str] = []
        self._last = 0
        self._rest = b""

    def __enter__(self) -> Self:
        told, hears = os.pipe()
        says, said = os.pipe()
        command = [chromium(), *FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{told} 4>&{said}', *command],
            pass_fds=(told, said),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(told)
        os.close(said)
        self._to, self._from = hears, says
        page = next(one for one in self._do("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self._session = self._do("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Runtime", "Page", "Log", "Network"):
            self.do(f"{domain}.enable")
        return self

    def __exit__(self, *_failure: object) -> None:
        with suppress(OSError):
            self._do("Browser.close")
        self._process.wait(patiently(20))
        os.close(self._to)
        os.close(self._from)

    def open(self, url: str) -> None:
        self.do("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """Evaluate an expression on the page."""
        answer = self.do("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """A screenshot of the window, as PNG."""
        return base64.b64decode(self.do("Page.captureScreenshot")["data"])

    def do(self, method: str, **parameters: Any) -> Any:
        """Send a command to the page and return its result."""
        return self._do(method, self._session, **parameters)

    def _do(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        os.write(self._to, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._last:
                assert "error" not in heard, heard
                return heard["result"]

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        self._note(heard)
        return heard

    def _note(self, heard: dict[str, Any]) -> None:
        """Record errors and warnings."""
        said = heard.get("params", {})
        match heard.get("method"):
            case "Runtime.exceptionThrown":
                self.console.append(str(said["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if said["type"] in {"error", "warning", "assert"}:
                self.console.append(str(said["args"]))
            case "Log.entryAdded" if said["entry"]["level"] in {"error", "warning"}:
                self.console.append(str(said["entry"]))
