"""Requests and responses of the HTTP API, independent of the transport: `Client` or `AsyncClient`."""

import json
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar
from urllib.parse import quote, urlsplit

from headrace.declare.features.view import View, require_view
from headrace.declare.models.model import Model
from headrace.declare.notebook_repr import render_html
from headrace.declare.streams.schema import Kind
from headrace.errors import HeadraceError

ResultT = TypeVar("ResultT")


class BadUrl(HeadraceError):
    """A server address is invalid."""


class BadToken(HeadraceError):
    """A token is invalid."""


class UnfitValue(HeadraceError):
    """A key or a request value cannot be encoded as JSON."""


class ServerUnreachable(HeadraceError):
    """No server answered at the address."""

    def __init__(self, url: str, failure: object) -> None:
        super().__init__(
            f"No Headrace server answers at {url}: {failure}. Start one with `headrace up APP` or give another address."
        )


class ServerRefused(HeadraceError):
    """The server answered with an error; the message is the server's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class FeatureRow:
    """The features of one entity as served; each is also an attribute."""

    entity: Mapping[str, Any]
    values: Mapping[str, Any]
    event_time: datetime | None
    age_ms: int | None

    def _repr_html_(self) -> str:
        entity_text = ", ".join(f"{name} {value}" for name, value in self.entity.items())
        return render_html(
            entity_text, f"as of its event at {self.event_time}", ("feature", "value"), list(self.values.items())
        )

    def __getattr__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        raise AttributeError(f"There is no feature {name!r}. The row has {', '.join(self.values)}.")


@dataclass(frozen=True)
class SqlAnswer:
    """The result of a query: name and type of each column, the rows, and whether it was truncated."""

    columns: list[dict[str, str]]
    rows: list[list[Any]]
    took_ms: float
    cut: bool

    def _repr_html_(self) -> str:
        summary = f"{len(self.rows)} rows{', and more' if self.cut else ''}, in {self.took_ms:.0f} ms"
        return render_html("answer", summary, [column["name"] for column in self.columns], self.rows)


class HotKey(TypedDict):
    """A heavy key of a stream or a view: the bounds of its share, and its partition."""

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
    """The skew of a topic's partitions; `skew` is the busiest as a multiple of the mean."""

    topic: str
    partitions: int
    records: int
    busiest: int
    share: float
    skew: float


class HotReport(TypedDict):
    """The heaviest keys, the skew of topics, and advice as text, from `GET /hot`."""

    keys: list[HotKey]
    topics: list[TopicSpread]
    advice: list[str]


@dataclass(frozen=True)
class Scored:
    """A prediction as served, its inputs, and what was degraded; nothing was if `degraded` is empty."""

    score: float
    decision: str | None
    model: str
    version: str
    features: Mapping[str, Any]
    age_ms: int | None
    degraded: tuple[str, ...]


class ServerAddress(NamedTuple):
    """The address of a server."""

    url: str
    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None


@dataclass(frozen=True)
class ClientRequest(Generic[ResultT]):
    """A path, a body, and a parser of the response; an idempotent request may be sent twice."""

    path: str
    body: bytes | None
    parse_result: Callable[[Any], ResultT]
    is_idempotent: bool = True

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    def parse_response(self, status: int, response_body: bytes) -> ResultT:
        """The parsed response, or the server's error as an exception."""
        if status != 200:
            raise ServerRefused(status, _error_message(status, response_body))
        return self.parse_result(json.loads(response_body))


def build_features_request(
    view: View | type, keys: Sequence[Any], at: datetime | str | None, request: Mapping[str, Any] | None
) -> ClientRequest[list[FeatureRow]]:
    """The features of entities, now or at a time."""
    view = require_view(view)
    payload = {"keys": list(keys), "at": at, "request": request}
    body = encode_body({name: value for name, value in payload.items() if value is not None})
    return ClientRequest(
        f"/features/{quote(view.name)}",
        body,
        lambda response: [_parse_feature_row(view, row) for row in response["rows"]],
    )


def build_predict_request(model: Model | str, event: Mapping[str, Any], include: bool) -> ClientRequest[Scored]:
    """The score of an event. Sent twice it would be two predictions in the log, so it is not idempotent."""
    name = model if isinstance(model, str) else model.name
    path = f"/predict/{quote(name)}{'?include=true' if include else ''}"
    return ClientRequest(path, encode_body(event), _parse_score, is_idempotent=False)


def build_hot_request() -> ClientRequest[HotReport]:
    """The heaviest keys."""
    return ClientRequest(
        "/hot",
        None,
        lambda response: HotReport(keys=response["keys"], topics=response["topics"], advice=response["advice"]),
    )


def build_openapi_request() -> ClientRequest[dict[str, Any]]:
    """The OpenAPI document."""
    return ClientRequest("/openapi.json", None, dict)


def build_sql_request(query: str, limit: int | None) -> ClientRequest[SqlAnswer]:
    """The result of a query, which only reads."""
    payload = {"sql": query} if limit is None else {"sql": query, "limit": limit}
    return ClientRequest("/sql", encode_body(payload), lambda response: SqlAnswer(**response))


def parse_address(url: str, ca: str | Path | None) -> ServerAddress:
    """The parts of a server's address."""
    parts = urlsplit(url.rstrip("/"))
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadUrl(f"Client: {url!r} is not an address. Write it as http://127.0.0.1:8080.")
    is_https = parts.scheme == "https"
    port = parts.port or (443 if is_https else 80)
    return ServerAddress(url.rstrip("/"), parts.hostname, port, parts.path, _load_tls_context(ca) if is_https else None)


def build_headers(token: str | None) -> dict[str, str]:
    """The headers of each request; a token that is invalid in a header is refused, and not printed."""
    token = token or os.environ.get("HEADRACE_TOKEN")
    if token and not (token.isascii() and token.isprintable()):
        raise BadToken("token= has characters that no token has. Give what `headrace token create` printed.")
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}


def encode_body(payload: Mapping[str, Any]) -> bytes:
    """The body as JSON; datetimes as ISO 8601."""
    try:
        return json.dumps(payload, default=_encode_value).encode()
    except (TypeError, ValueError, RecursionError) as error:  # keys that are not text, circular references
        raise UnfitValue(
            f"{payload!r:.80} cannot be sent: {error}. Write text, numbers, booleans or datetimes."
        ) from None


def _parse_score(response: Mapping[str, Any]) -> Scored:
    return Scored(**{**response, "degraded": tuple(response["degraded"])})


def _load_tls_context(ca: str | Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        raise BadUrl(f"ca={str(ca)!r} cannot be read: {error}. Give a PEM file of certificates.") from error


def _parse_feature_row(view: View, row: Mapping[str, Any]) -> FeatureRow:
    entity = {
        column.name: _parse_time(row[column.name]) if column.kind is Kind.TIMESTAMP else row[column.name]
        for column in view.entity
    }
    kinds, map_names = (
        _output_kinds(view),
        {feature.name for feature in view.features if feature.aggregate.is_map_valued},
    )
    values = {
        name: (_parse_map if name in map_names else _parse_value)(kinds[name], row["values"][name])
        for name in view.names
    }
    return FeatureRow(entity, values, _parse_time(row["event_time"]), row["age_ms"])


def _output_kinds(view: View) -> dict[str, Kind]:
    """The kind of each output, or of the elements of a list or the keys of a map."""
    window_kinds = {feature.name: feature.aggregate.result_type.kind for feature in view.features}
    return window_kinds | {
        on_demand_feature.name: on_demand_feature.kind for on_demand_feature in view.on_demand_features
    }


def _parse_value(kind: Kind, encoded: Any) -> Any:
    """A value as `hr.testing` gives it: JSON has no timestamps, and no NaN or infinities."""
    if encoded is None:
        return None
    if kind is Kind.TIMESTAMP:
        return _parse_time(encoded)
    return float(encoded) if kind is Kind.DOUBLE else encoded


def _parse_map(kind: Kind, encoded: Mapping[str, int]) -> dict[Any, int]:
    """A map as `hr.testing` gives it: in JSON all keys are text."""
    is_text = kind is Kind.STRING
    return {key if is_text else json.loads(key): count for key, count in encoded.items()}


def _parse_time(encoded: str | None) -> datetime | None:
    return None if encoded is None else datetime.fromisoformat(encoded)


def _encode_value(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise UnfitValue(f"{value!r} cannot be sent. Write keys and values as text, numbers, booleans or datetimes.")


def _error_message(status: int, response_body: bytes) -> str:
    """The server's own message; a proxy may also have answered, and not in JSON."""
    try:
        return str(json.loads(response_body)["error"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {status}: {response_body[:200].decode(errors='replace')}"
