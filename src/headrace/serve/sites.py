"""Which names this server answers to, and whose pages may ask it.

A page of another site can make a browser send anything to an address it knows, and can make a name of its own lead to
that address (DNS rebinding). The browser says of both: `Host` is the name it believes in, `Origin` the page that asks.
"""

import ipaddress
from collections.abc import Sequence

from headrace.serve.answers import Forbidden

EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104  # known, not bound
MOST_REMEMBERED = 1000


class OtherSite(Forbidden):
    """A request under a name that is not ours, or of a page that is not."""


class Sites:
    """The names of a server: loopback, where it is bound, and those it was given.

    One that is bound everywhere answers to any address too: a name can be made to lead elsewhere, an address cannot.
    """

    def __init__(self, bound: str, names: Sequence[str] = ()) -> None:
        self._given = {name.lower() for name in names}
        self._names = {"localhost", bound.lower(), *self._given}
        self._takes_addresses = bound in EVERYWHERE
        self.known: set[bytes | None] = set()

    def require_name(self, host: bytes) -> None:
        """Refuse a request that was sent to another name."""
        if host in self.known:
            return
        text = host.decode("latin-1").lower()
        if text not in self._given and not self._is_ours(host_of(text)):
            raise OtherSite(f"{text[:200]!r} is not a name of this server. If it should be: --allow-host {text[:200]}.")
        if len(self.known) < MOST_REMEMBERED:
            self.known.add(host)

    def require_page(self, origin: bytes, host: bytes | None) -> None:
        """Refuse a request of a page that did not come from here: another port is another site."""
        if not self.is_own_page(origin, host):
            shown = origin[:200].decode("latin-1")
            raise OtherSite(f"A page of {shown!r} may not ask this server. Ask from a page of its own, or without one.")

    def is_own_page(self, origin: bytes, host: bytes | None) -> bool:
        """Whether a page is ours: from the name that is asked, or one that was given."""
        _, _, place = origin.lower().partition(b"://")
        return bool(place) and (place == (host or b"").lower() or self.is_given(origin))

    def is_given(self, origin: bytes) -> bool:
        """Whether a page is of a name that was given."""
        return origin.lower().partition(b"://")[2].decode("latin-1") in self._given

    def _is_ours(self, host: str) -> bool:
        if host in self._names:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return self._takes_addresses or address.is_loopback


def host_of(text: str) -> str:
    """The host of HOST:PORT, without the brackets of IPv6.

    >>> host_of("[::1]:8080"), host_of("localhost:8080"), host_of("::1"), host_of("shop")
    ('::1', 'localhost', '::1', 'shop')
    """
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text if text.count(":") > 1 else text.partition(":")[0]
