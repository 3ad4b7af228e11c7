"""The synchronous client: `hr.Client("http://127.0.0.1:8080").features(CardSpend, ["c1"])`."""

import select
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.client import protocol
from headrace.client.protocol import ClientRequest, FeatureRow, HotReport, Scored, ServerUnreachable, SqlAnswer
from headrace.declare.features.view import View
from headrace.declare.models.model import Model

ResultT = TypeVar("ResultT")


class Client:
    """A client of one server with a persistent connection, which threads may share: requests are serialized.

    Without `token=`, the one in HEADRACE_TOKEN is sent, if there is one; `ca=` is a PEM file of certificates to trust.
    """

    def __init__(
        self, url: str, timeout_s: float = 10.0, *, token: str | None = None, ca: str | Path | None = None
    ) -> None:
        self._address = protocol.parse_address(url, ca)
        self._headers = protocol.build_headers(token)
        host, port, tls = self._address.host, self._address.port, self._address.tls
        self._connection: HTTPConnection = (
            HTTPConnection(host, port, timeout=timeout_s)
            if tls is None
            else HTTPSConnection(host, port, timeout=timeout_s, context=tls)
        )
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def features(
        self,
        view: View | type,
        keys: Sequence[Any],
        *,
        at: datetime | str | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> list[FeatureRow]:
        """The features of entities, now or at a time; a key is a value, or a list of values in the order of `by`."""
        return self._send(protocol.build_features_request(view, keys, at, request))

    def predict(self, model: Model | str, event: Mapping[str, Any], *, include: bool = False) -> Scored:
        """The score of an event; with `include` the event is added to its own windows first, as in the stream."""
        return self._send(protocol.build_predict_request(model, event, include))

    def hot(self) -> HotReport:
        """The heaviest keys of each stream and view, and the skew of partitions, from `GET /hot`."""
        return self._send(protocol.build_hot_request())

    def sql(self, query: str, *, limit: int | None = None) -> SqlAnswer:
        """The result of a query over the live tables and the lake; values have their JSON types."""
        return self._send(protocol.build_sql_request(query, limit))

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of the server."""
        return self._send(protocol.build_openapi_request())

    def close(self) -> None:
        """Close the connection; the next request opens one again."""
        with self._lock:
            self._connection.close()

    def _send(self, request: ClientRequest[ResultT]) -> ResultT:
        with self._lock:
            status, response_body = self._send_with_retry(request)
        return request.parse_response(status, response_body)

    def _send_with_retry(self, request: ClientRequest[ResultT]) -> tuple[int, bytes]:
        """Send a request; the connection may have been closed meanwhile, so an idempotent request is retried once."""
        self._close_if_stale()
        is_reused = self._connection.sock is not None
        try:
            return self._send_once(request)
        except (OSError, HTTPException) as failure:
            self._connection.close()
            if not is_reused or not request.is_idempotent or isinstance(failure, TimeoutError):
                raise ServerUnreachable(self._address.url, failure) from failure
        return self._send_with_retry(request)

    def _close_if_stale(self) -> None:
        """Close the connection if it is readable while idle: the other end has closed it."""
        if self._connection.sock is not None and select.select([self._connection.sock], [], [], 0)[0]:
            self._connection.close()

    def _send_once(self, request: ClientRequest[ResultT]) -> tuple[int, bytes]:
        path = self._address.path + request.path
        self._connection.request(request.method, path, request.body, self._headers)
        response = self._connection.getresponse()
        return response.status, response.read()
