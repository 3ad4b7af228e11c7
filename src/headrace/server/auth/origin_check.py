"""The Host and Origin check: which names this server answers to, and which pages may send requests.

A page of another site can make a browser send anything to a known address, and can point a name of its own at
that address (DNS rebinding). The browser reveals both: `Host` is the name it resolved, `Origin` the page that asks.
"""

import ipaddress
from collections.abc import Sequence

from headrace.server.http.responses import Forbidden

WILDCARD_ADDRESSES = {"0.0.0.0", "::"}  # noqa: S104  # compared, not bound
MAX_CACHED_HOSTS = 1000


class OriginRefused(Forbidden):
    """A request with a Host or Origin that is not allowed."""


class OriginPolicy:
    """The allowed names of a server: loopback, its bind address, and the configured ones.

    A server bound to a wildcard address also accepts any IP address: DNS rebinding changes names, not addresses.
    """

    def __init__(self, bind_host: str, allowed_hosts: Sequence[str] = ()) -> None:
        self._allowed_hosts = {name.lower() for name in allowed_hosts}
        self._own_hosts = {"localhost", bind_host.lower(), *self._allowed_hosts}
        self._accepts_any_address = bind_host in WILDCARD_ADDRESSES
        self.accepted_hosts: set[bytes | None] = set()

    def require_host(self, host: bytes) -> None:
        """Reject a request whose Host is another name."""
        if host in self.accepted_hosts:
            return
        text = host.decode("latin-1").lower()
        if text not in self._allowed_hosts and not self._is_own_host(parse_host(text)):
            raise OriginRefused(
                f"{text[:200]!r} is not a name of this server. If it should be: --allow-host {text[:200]}."
            )
        if len(self.accepted_hosts) < MAX_CACHED_HOSTS:
            self.accepted_hosts.add(host)

    def require_origin(self, origin: bytes, host: bytes | None) -> None:
        """Reject a request from a page of another origin: another port is another origin."""
        if not self.is_same_origin(origin, host):
            origin_text = origin[:200].decode("latin-1")
            raise OriginRefused(
                f"A page of {origin_text!r} may not ask this server. Ask from a page of its own, or without one."
            )

    def is_same_origin(self, origin: bytes, host: bytes | None) -> bool:
        """Whether a page has our origin: the name of the request, or a configured one."""
        _, _, authority = origin.lower().partition(b"://")
        return bool(authority) and (authority == (host or b"").lower() or self.is_allowed_origin(origin))

    def is_allowed_origin(self, origin: bytes) -> bool:
        """Whether the origin's name is configured."""
        return origin.lower().partition(b"://")[2].decode("latin-1") in self._allowed_hosts

    def _is_own_host(self, host: str) -> bool:
        if host in self._own_hosts:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return self._accepts_any_address or address.is_loopback


def parse_host(text: str) -> str:
    """The host of HOST:PORT, without the brackets of IPv6.

    >>> parse_host("[::1]:8080"), parse_host("localhost:8080"), parse_host("::1"), parse_host("shop")
    ('::1', 'localhost', '::1', 'shop')
    """
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text if text.count(":") > 1 else text.partition(":")[0]
