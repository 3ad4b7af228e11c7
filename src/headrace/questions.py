"""What is asked of a running Headrace and how its answers are read, whoever carries them: `Client` or `AsyncClient`."""

import json
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar
from urllib.parse import quote, urlsplit

from headrace.declare.model import Model
from headrace.declare.schema import Kind
from headrace.declare.shown import shown
from headrace.declare.views import View, view_of
from headrace.errors import HeadraceError

Told = TypeVar("Told")
EXACT = {"count", "distinct"}


class BadUrl(HeadraceError):
    """What should be a server's address is not."""


class BadToken(HeadraceError):
    """What should be a token is not."""


class UnfitValue(HeadraceError):
    """A key or a request value that JSON cannot carry."""


class ServerUnreachable(HeadraceError):
    """No server answered at the address."""

    def __init__(self, url: str, failure: object) -> None:
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

    def _repr_html_(self) -> str:
        who = ", ".join(f"{name} {value}" for name, value in self.entity.items())
        return shown(who, f"as of its event at {self.event_time}", ("feature", "value"), list(self.values.items()))

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

    def _repr_html_(self) -> str:
        line = f"{len(self.rows)} rows{', and more' if self.cut else ''}, in {self.took_ms:.0f} ms"
        return shown("answer", line, [column["name"] for column in self.columns], self.rows)


class HotKey(TypedDict):
    """A heavy key of a stream or a view: the bounds of its share, and where it is."""

    streams: list[str]
    view: str | None
    rank: int
    key: str
    at_least: float
    at_most: float
    events_per_second: float
    partition: int | None
    partitions: int
    salt: int
    is_hot: bool


class TopicSpread(TypedDict):
    """How evenly the partitions of a topic are used; `skew` is the busiest as a multiple of the mean."""

    topic: str
    partitions: int
    records: int
    busiest: int
    share: float
    skew: float


class HotReport(TypedDict):
    """The heaviest keys, the spread of topics, and what to do in words, as `GET /hot` tells them."""

    keys: list[HotKey]
    topics: list[TopicSpread]
    advice: list[str]


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


class Address(NamedTuple):
    """Where a server is."""

    url: str
    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None


@dataclass(frozen=True)
class Question(Generic[Told]):
    """A path, what is sent to it, and how the answer is read; one that is safe may be asked twice."""

    path: str
    body: bytes | None
    read: Callable[[Any], Told]
    is_safe: bool = True

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    def answer(self, status: int, answered: bytes) -> Told:
        """What was answered, or the server's own sentence as an error."""
        if status != 200:
            raise ServerRefused(status, _sentence(status, answered))
        return self.read(json.loads(answered))


def features_of(
    view: View | type, keys: Sequence[Any], at: datetime | str | None, request: Mapping[str, Any] | None
) -> Question[list[FeatureRow]]:
    """The features of entities, now or at a time."""
    view = view_of(view)
    asked = {"keys": list(keys), "at": at, "request": request}
    body = body_of({name: value for name, value in asked.items() if value is not None})
    return Question(f"/features/{quote(view.name)}", body, lambda said: [_row(view, row) for row in said["rows"]])


def score_of(model: Model | str, event: Mapping[str, Any], include: bool) -> Question[Scored]:
    """The score of an event. Asked twice it would be two predictions in the log, so it is not safe."""
    name = model if isinstance(model, str) else model.name
    path = f"/predict/{quote(name)}{'?include=true' if include else ''}"
    return Question(path, body_of(event), _scored, is_safe=False)


def hot() -> Question[HotReport]:
    """The heaviest keys."""
    return Question(
        "/hot", None, lambda said: HotReport(keys=said["keys"], topics=said["topics"], advice=said["advice"])
    )


def openapi() -> Question[dict[str, Any]]:
    """What can be asked."""
    return Question("/openapi.json", None, dict)


def sql_of(query: str, limit: int | None) -> Question[SqlAnswer]:
    """The answer to a query: it only reads."""
    asked = {"sql": query} if limit is None else {"sql": query, "limit": limit}
    return Question("/sql", body_of(asked), lambda said: SqlAnswer(**said))


def address_of(url: str, ca: str | Path | None) -> Address:
    """The parts of a server's address."""
    place = urlsplit(url.rstrip("/"))
    if place.scheme not in {"http", "https"} or not place.hostname:
        raise BadUrl(f"Client: {url!r} is not an address. Write it as http://127.0.0.1:8080.")
    is_https = place.scheme == "https"
    port = place.port or (443 if is_https else 80)
    return Address(url.rstrip("/"), place.hostname, port, place.path, _trusting(ca) if is_https else None)


def headers_of(token: str | None) -> dict[str, str]:
    """What is sent with each question; what cannot stand in a header is no token, and is not repeated."""
    token = token or os.environ.get("HEADRACE_TOKEN")
    if token and not (token.isascii() and token.isprintable()):
        raise BadToken("token= has characters that no token has. Give what `headrace token create` printed.")
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}


def body_of(said: Mapping[str, Any]) -> bytes:
    """What is sent, as JSON; datetimes as ISO 8601."""
    try:
        return json.dumps(said, default=_written).encode()
    except (TypeError, ValueError, RecursionError) as problem:  # keys that are no text, what holds itself
        raise UnfitValue(
            f"{said!r:.80} cannot be sent: {problem}. Write text, numbers, booleans or datetimes."
        ) from None


def _scored(said: Mapping[str, Any]) -> Scored:
    return Scored(**{**said, "degraded": tuple(said["degraded"])})


def _trusting(ca: str | Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as unreadable:
        raise BadUrl(f"ca={str(ca)!r} cannot be read: {unreadable}. Give a PEM file of certificates.") from unreadable


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
