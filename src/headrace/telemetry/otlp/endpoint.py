"""The OTLP endpoint: https or loopback only; headers with credentials come from the environment alone."""

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.errors import HeadraceError
from headrace.telemetry.webhooks.pinned_post import PinnedConnection, PostResponse, post

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
CERTIFICATE_VARIABLE = "OTEL_EXPORTER_OTLP_CERTIFICATE"
ATTEMPT_SECONDS = 10.0
DEFAULT_HEADERS = {"content-type": "application/json", "user-agent": "headrace", "connection": "close"}


class BadEndpoint(HeadraceError):
    """An OTLP endpoint that is invalid as written."""


@dataclass(frozen=True)
class OtlpEndpoint:
    """An OTLP endpoint; its path and its headers may be secrets and are never logged."""

    host: str
    port: int
    path: str = field(repr=False)
    is_secure: bool
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: str | None = None
    attempt_seconds: float = ATTEMPT_SECONDS

    def post(self, signal: str, body: bytes) -> PostResponse:
        """Push one body of metrics or traces, without a proxy and without following redirects."""
        connection = PinnedConnection((self.host, self.port), self._resolve_addresses, self.tls, self.attempt_seconds)
        return post(connection, f"{self.path}/v1/{signal}", body, {**self.headers, **DEFAULT_HEADERS})

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        if not self.is_secure:
            return None
        try:
            return ssl.create_default_context(cafile=self.certificate)
        except (OSError, ssl.SSLError) as error:
            raise BadEndpoint(
                f"{CERTIFICATE_VARIABLE}={self.certificate!r} cannot be read: {error}. Give a PEM file of certificates."
            ) from None

    def _resolve_addresses(self) -> list[str]:
        addresses = [str(info[4][0]) for info in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)]
        if not self.is_secure and not all(_is_loopback(address) for address in addresses):
            raise OSError("the name does not lead to this machine, and what is pushed could be read on the way")
        return list(dict.fromkeys(addresses))


def parse_endpoint(url: str, environment: Mapping[str, str]) -> OtlpEndpoint:
    """The endpoint at an address, with settings from the environment; refused where others could read the traffic."""
    parts = _parse_url(url)
    host = parts.hostname or ""
    is_secure = parts.scheme == "https"
    if not is_secure and not (host == "localhost" or _is_loopback(host)):
        raise BadEndpoint(
            f"--otlp http://{host}: what is pushed could be read on the way. Write https://, or push to a collector "
            "on this machine: --otlp http://127.0.0.1:4318. To push nowhere: --otlp off."
        )
    endpoint = OtlpEndpoint(
        host,
        parts.port or (443 if is_secure else 80),
        parts.path.rstrip("/"),
        is_secure,
        parse_headers(environment.get(HEADERS_VARIABLE, "")),
        environment.get(CERTIFICATE_VARIABLE) or None,
    )
    _ = endpoint.tls  # reports an unreadable certificate before anything starts
    return endpoint


def parse_headers(text: str) -> dict[str, str]:
    """Parse headers in the format of the standard variable.

    >>> parse_headers("authorization=Basic%20dXNlcg==, x-tenant=shop")
    {'authorization': 'Basic dXNlcg==', 'x-tenant': 'shop'}
    """
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    headers = {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or not _is_header_value(value):
            raise BadEndpoint(f"{HEADERS_VARIABLE} cannot be read. Write name=value,name=value, with %20 for a space.")
    return headers


def _parse_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or any(char <= " " for char in url) or parts.query or parts.fragment:
        raise BadEndpoint("--otlp is no address of a receiver. Write https://host:4318, or off.")
    if parts.username is not None:
        raise BadEndpoint(f"--otlp has a user before its host. Give it as a header in {HEADERS_VARIABLE}.")
    return parts


def _is_header_value(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text.partition("%")[0]).is_loopback
    except ValueError:
        return False
