"""Asking a running Headrace from Python: `hr.Client("http://127.0.0.1:8080").features(CardSpend, ["c1"])`."""

import select
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace import questions
from headrace.declare.model import Model
from headrace.declare.views import View
from headrace.questions import FeatureRow, HotReport, Question, Scored, ServerUnreachable, SqlAnswer

Told = TypeVar("Told")


class Client:
    """A client of one server, which keeps its connection; threads may share it and take turns.

    Without `token=`, the one in HEADRACE_TOKEN is sent, if there is one; `ca=` is a PEM file of certificates to trust.
    """

    def __init__(
        self, url: str, timeout_s: float = 10.0, *, token: str | None = None, ca: str | Path | None = None
    ) -> None:
        self._address = questions.address_of(url, ca)
        self._headers = questions.headers_of(token)
        host, port, tls = self._address.host, self._address.port, self._address.tls
        self._connection: HTTPConnection = (
            HTTPConnection(host, port, timeout=timeout_s)
            if tls is None
            else HTTPSConnection(host, port, timeout=timeout_s, context=tls)
        )
        self._turn = threading.Lock()

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
        """The features of entities, now or at a time; a key is a value, or a list of them in the order of `by`."""
        return self._ask(questions.features_of(view, keys, at, request))

    def predict(self, model: Model | str, event: Mapping[str, Any], *, include: bool = False) -> Scored:
        """The score of an event; with `include` it is folded into its own windows first, as the stream does."""
        return self._ask(questions.score_of(model, event, include))

    def hot(self) -> HotReport:
        """The heaviest keys of each stream and view, and how evenly partitions are used, as `GET /hot` tells them."""
        return self._ask(questions.hot())

    def sql(self, query: str, *, limit: int | None = None) -> SqlAnswer:
        """The answer to a query over the live tables and the lake; values are as JSON has them."""
        return self._ask(questions.sql_of(query, limit))

    def openapi(self) -> dict[str, Any]:
        """What the server can be asked, as OpenAPI has it."""
        return self._ask(questions.openapi())

    def close(self) -> None:
        """Close the connection; the next question opens one again."""
        with self._turn:
            self._connection.close()

    def _ask(self, question: Question[Told]) -> Told:
        with self._turn:
            status, answered = self._answered(question)
        return question.answer(status, answered)

    def _answered(self, question: Question[Told]) -> tuple[int, bytes]:
        """Ask; a kept connection may have been closed meanwhile, so a safe question that fails is asked anew, once."""
        self._let_go_if_closed()
        is_kept = self._connection.sock is not None
        try:
            return self._answered_once(question)
        except (OSError, HTTPException) as failure:
            self._connection.close()
            if not is_kept or not question.is_safe or isinstance(failure, TimeoutError):
                raise ServerUnreachable(self._address.url, failure) from failure
        return self._answered(question)

    def _let_go_if_closed(self) -> None:
        """Of a connection that is idle nothing can be read, unless its other end has closed it."""
        if self._connection.sock is not None and select.select([self._connection.sock], [], [], 0)[0]:
            self._connection.close()

    def _answered_once(self, question: Question[Told]) -> tuple[int, bytes]:
        path = self._address.path + question.path
        self._connection.request(question.method, path, question.body, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()
