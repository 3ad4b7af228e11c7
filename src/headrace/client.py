"""Asking a running Headrace from Python: `hr.Client("http://127.0.0.1:8080").features(CardSpend, ["c1"])`."""

import json
import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from headrace.declare.model import Model
from headrace.declare.schema import Kind
from headrace.declare.views import View, view_of
from headrace.errors import HeadraceError

EXACT = {"count", "distinct"}


class BadUrl(HeadraceError):
    """What should be a server's address is not."""


class BadToken(HeadraceError):
    """What should be a token is not."""


class UnfitValue(HeadraceError):
    """A key or a request value that JSON cannot carry."""


class ServerUnreachable(HeadraceError):
    """No server answered at the address."""

    def __init__(self, url: str, failure: BaseException) -> None:
        super().__init__(
            f"No Headrace server answers at {url}: {failure}. Start one with `headrace up APP` or give another address."
        )


class ServerRefused(HeadraceError):
    """The server answered with an error; the message is its own sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class FeatureRow:
    """The features of one entity as they were served; each is also an attribute."""

    entity: Mapping[str, Any]
    values: Mapping[str, Any]
    event_time: datetime | None
    age_ms: int | None

    def __getattr__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        raise AttributeError(f"There is no feature {name!r}. The row has {', '.join(self.values)}.")


@dataclass(frozen=True)
class SqlAnswer:
    """The answer to a query: name and type of each column, the rows, and whether there were more of them."""

    columns: list[dict[str, str]]
    rows: list[list[Any]]
    took_ms: float
    cut: bool


@dataclass(frozen=True)
class Scored:
    """A score as it was answered, what it was made of, and what was lacking: nothing, where `degraded` is empty."""

    score: float
    decision: str | None
    model: str
    version: str
    features: Mapping[str, Any]
    age_ms: int | None
    degraded: tuple[str, ...]


class Client:
    """A client of one server, which keeps its connection; threads may share it and take turns.

    Without `token=`, the one in HEADRACE_TOKEN is sent, if there is one; `ca=` is a PEM file of certificates to trust.
    """

    def __init__(
        self, url: str, timeout_s: float = 10.0, *, token: str | None = None, ca: str | Path | None = None
    ) -> None:
        self._url = url.rstrip("/")
        place = urlsplit(self._url)
        if place.scheme not in {"http", "https"} or not place.hostname:
            raise BadUrl(f"Client: {url!r} is not an address. Write it as http://127.0.0.1:8080.")
        if place.scheme == "https":
            self._connection: HTTPConnection = HTTPSConnection(
                place.hostname, place.port, timeout=timeout_s, context=_trusting(ca)
            )
        else:
            self._connection = HTTPConnection(place.hostname, place.port, timeout=timeout_s)
        self._path, self._headers = place.path, _headers(token or os.environ.get("HEADRACE_TOKEN"))
        self._turn = threading.Lock()

    def features(
        self,
        view: View | type,
        keys: Sequence[Any],
        *,
        at: datetime | str | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> list[FeatureRow]:
        """The features of entities, now or at a time; a key is a value, or a list of them in the order of `by`."""
        view = view_of(view)
        asked = {"keys": list(keys), "at": at, "request": request}
        body = {name: value for name, value in asked.items() if value is not None}
        answer = self._post(f"/features/{quote(view.name)}", body)
        return [_row(view, row) for row in answer["rows"]]

    def predict(self, model: Model | str, event: Mapping[str, Any], *, include: bool = False) -> Scored:
        """The score of an event; with `include` it is folded into its own windows first, as the stream does."""
        name = model if isinstance(model, str) else model.name
        answer = self._post(f"/predict/{quote(name)}{'?include=true' if include else ''}", event)
        return Scored(**{**answer, "degraded": tuple(answer["degraded"])})

    def hot(self) -> dict[str, Any]:
        """The heaviest keys of each stream and view, and how evenly partitions are used, as `GET /hot` tells them."""
        found: dict[str, Any] = self._answer("/hot", None)
        return found

    def sql(self, query: str, *, limit: int | None = None) -> SqlAnswer:
        """The answer to a query over the live tables and the lake; values are as JSON has them."""
        answer = self._post("/sql", {"sql": query} if limit is None else {"sql": query, "limit": limit})
        return SqlAnswer(**answer)

    def close(self) -> None:
        """Close the connection; the next question opens one again."""
        with self._turn:
            self._connection.close()

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._answer(path, json.dumps(body, default=_written).encode())

    def _answer(self, path: str, body: bytes | None) -> Any:
        """What is answered to a body or, where there is none, to whoever looks."""
        with self._turn:
            status, answered = self._ask(self._path + path, body)
        if status != 200:
            raise ServerRefused(status, _sentence(status, answered))
        return json.loads(answered)

    def _ask(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Ask; a kept connection may have been closed meanwhile, so one that fails is opened anew, once."""
        is_kept = self._connection.sock is not None
        try:
            return self._ask_once(path, body)
        except (OSError, HTTPException) as failure:
            self._connection.close()
            if not is_kept or isinstance(failure, TimeoutError):
                raise ServerUnreachable(self._url, failure) from failure
        return self._ask(path, body)

    def _ask_once(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        self._connection.request("GET" if body is None else "POST", path, body, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def _trusting(ca: str | Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as unreadable:
        raise BadUrl(f"ca={str(ca)!r} cannot be read: {unreadable}. Give a PEM file of certificates.") from unreadable


def _headers(token: str | None) -> dict[str, str]:
    """What is sent with each question; what cannot stand in a header is no token, and is not repeated."""
    if token and not (token.isascii() and token.isprintable()):
        raise BadToken("token= has characters that no token has. Give what `headrace token create` printed.")
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}


def _row(view: View, row: Mapping[str, Any]) -> FeatureRow:
    entity = {
        column.name: _moment(row[column.name]) if column.kind is Kind.TIMESTAMP else row[column.name]
        for column in view.entity
    }
    kinds, maps = _kinds(view), {feature.name for feature in view.features if feature.aggregate.gives_a_map}
    values = {name: (_map if name in maps else _value)(kinds[name], row["values"][name]) for name in view.names}
    return FeatureRow(entity, values, _moment(row["event_time"]), row["age_ms"])


def _kinds(view: View) -> dict[str, Kind | None]:
    """What each output was computed from: the kind of its column, or of its expression."""
    kept = {
        feature.name: None if feature.aggregate.function in EXACT else feature.aggregate.kind
        for feature in view.features
    }
    return kept | {derived.name: derived.kind for derived in view.derived}


def _value(kind: Kind | None, written: Any) -> Any:
    """A value as `hr.testing` gives it: JSON has no moments, and no NaN or infinities."""
    if written is None:
        return None
    if kind is Kind.TIMESTAMP:
        return _moment(written)
    return float(written) if kind is Kind.DOUBLE else written


def _map(kind: Kind | None, written: Mapping[str, int]) -> dict[Any, int]:
    """A map as `hr.testing` gives it: keys are text in JSON alone."""
    is_text = kind is Kind.STRING
    return {key if is_text else json.loads(key): count for key, count in written.items()}


def _moment(written: str | None) -> datetime | None:
    return None if written is None else datetime.fromisoformat(written)


def _written(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise UnfitValue(f"{value!r} cannot be sent. Write keys and values as text, numbers, booleans or datetimes.")


def _sentence(status: int, answered: bytes) -> str:
    """The server's own sentence; something between us and it may answer as well, and not in JSON."""
    try:
        return str(json.loads(answered)["error"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {status}: {answered[:200].decode(errors='replace')}"
