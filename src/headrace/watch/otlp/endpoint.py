"""Where OTLP is pushed to: https, or this machine; headers that let it in come from the environment alone."""

import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.errors import HeadraceError
from headrace.watch.post import PinnedConnection, Posted, post

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
CERTIFICATE_VARIABLE = "OTEL_EXPORTER_OTLP_CERTIFICATE"
ATTEMPT_SECONDS = 10.0
OWN_HEADERS = {"content-type": "application/json", "user-agent": "headrace", "connection": "close"}


class BadEndpoint(HeadraceError):
    """A receiver that cannot be one, as it is written."""


@dataclass(frozen=True)
class Endpoint:
    """A receiver; its path and its headers may be secrets and are never said."""

    host: str
    port: int
    path: str = field(repr=False)
    is_secure: bool
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: str | None = None
    attempt_seconds: float = ATTEMPT_SECONDS

    def post(self, signal: str, body: bytes) -> Posted:
        """Push one body of metrics or traces, through no proxy and by no redirect."""
        connection = PinnedConnection((self.host, self.port), self._addresses, self.tls, self.attempt_seconds)
        return post(connection, f"{self.path}/v1/{signal}", body, {**self.headers, **OWN_HEADERS})

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        if not self.is_secure:
            return None
        try:
            return ssl.create_default_context(cafile=self.certificate)
        except (OSError, ssl.SSLError) as unreadable:
            raise BadEndpoint(
                f"{CERTIFICATE_VARIABLE}={self.certificate!r} cannot be read: {unreadable}. "
                "Give a PEM file of certificates."
            ) from None

    def _addresses(self) -> list[str]:
        found = [str(info[4][0]) for info in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)]
        if not self.is_secure and not all(_is_loopback(address) for address in found):
            raise OSError("the name does not lead to this machine, and what is pushed could be read on the way")
        return list(dict.fromkeys(found))


def endpoint_of(url: str, environment: Mapping[str, str]) -> Endpoint:
    """The receiver at an address, with what the environment says of it; refused where others could listen."""
    parts = _parts(url)
    host = parts.hostname or ""
    is_secure = parts.scheme == "https"
    if not is_secure and not (host == "localhost" or _is_loopback(host)):
        raise BadEndpoint(
            f"--otlp http://{host}: what is pushed could be read on the way. Write https://, or push to a collector "
            "on this machine: --otlp http://127.0.0.1:4318. To push nowhere: --otlp off."
        )
    endpoint = Endpoint(
        host,
        parts.port or (443 if is_secure else 80),
        parts.path.rstrip("/"),
        is_secure,
        headers_of(environment.get(HEADERS_VARIABLE, "")),
        environment.get(CERTIFICATE_VARIABLE) or None,
    )
    _ = endpoint.tls  # a certificate that cannot be read is told of before anything starts
    return endpoint


def headers_of(written: str) -> dict[str, str]:
    """Headers as the standard variable has them.

    >>> headers_of("authorization=Basic%20dXNlcg==, x-tenant=shop")
    {'authorization': 'Basic dXNlcg==', 'x-tenant': 'shop'}
    """
    pairs = [one.strip().partition("=") for one in written.split(",") if one.strip()]
    headers = {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or not _is_value(value):
            raise BadEndpoint(f"{HEADERS_VARIABLE} cannot be read. Write name=value,name=value, with %20 for a space.")
    return headers


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_whole = False
    if not is_whole or not url.isascii() or any(mark <= " " for mark in url) or parts.query or parts.fragment:
        raise BadEndpoint("--otlp is no address of a receiver. Write https://host:4318, or off.")
    if parts.username is not None:
        raise BadEndpoint(f"--otlp has a user before its host. Give it as a header in {HEADERS_VARIABLE}.")
    return parts


def _is_value(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text.partition("%")[0]).is_loopback
    except ValueError:
        return False
