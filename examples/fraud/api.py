"""The requests of the demo for readiness and metrics."""

import http.client

PATIENCE_SECONDS = 10.0


class NotReady(Exception):
    """The server does not answer yet, or reports that it is not ready."""


class Api:
    """A client for the metrics and readiness of a server over one keep-alive connection; not thread-safe."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)

    def metrics(self) -> str:
        return self._get("/metrics")

    def require_ready(self) -> None:
        self._get("/v2/health/ready")

    def _get(self, path: str) -> str:
        try:
            self._connection.request("GET", path)
            answer = self._connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise NotReady(f"GET http://{self.address}{path}: no answer ({error})") from error
        if answer.status != http.client.OK:
            raise NotReady(f"GET http://{self.address}{path}: {answer.status} {text.strip()[:300]}")
        return text
