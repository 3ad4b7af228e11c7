"""The server over one kept connection, with the standard library alone."""

import http.client
import json
from typing import Any

PATIENCE_SECONDS = 10.0


class NotReady(Exception):
    """The server does not answer yet, or says what is missing."""


class Api:
    """Feature rows, metrics and readiness of a Headrace server; one thread uses it at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.values_read = 0
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)

    def features(self, view: str, keys: list[str]) -> list[dict[str, Any]]:
        """The rows of these keys, in their order."""
        text = self._call("POST", f"/features/{view}", json.dumps({"keys": keys}))
        rows: list[dict[str, Any]] = json.loads(text)["rows"]
        self.values_read += sum(len(row["values"]) for row in rows)
        return rows

    def metrics(self) -> str:
        return self._call("GET", "/metrics")

    def require_ready(self) -> None:
        self._call("GET", "/v2/health/ready")

    def _call(self, method: str, path: str, body: str | None = None) -> str:
        try:
            self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = self._connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise NotReady(f"{method} http://{self.address}{path}: no answer ({error})") from error
        if answer.status != http.client.OK:
            raise NotReady(f"{method} http://{self.address}{path}: {answer.status} {text.strip()[:300]}")
        return text
