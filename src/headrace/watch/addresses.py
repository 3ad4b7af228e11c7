"""Which addresses a webhook may reach: the public ones, and those that were listed."""

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from headrace.errors import HeadraceError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# On a network with NAT64 such an address is another way to write one of IPv4 (RFC 6052).
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class BadWebhook(HeadraceError):
    """A webhook that cannot be one, as it is written."""


class RefusedAddress(HeadraceError):
    """A webhook's host is at an address that is not public, and not listed."""


def networks_of(written: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and networks that are listed."""
    try:
        return tuple(ipaddress.ip_network(one.strip()) for one in written if one.strip())
    except ValueError as wrong:
        raise BadWebhook(f"--webhook-allow: {wrong}. Write an address or a network: 10.1.2.3 or 10.0.0.0/8.") from wrong


def require_https(url: str) -> tuple[str, int, str]:
    """Host, port and path of a webhook; its path may be a secret and is never said."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "https" or not host or not url.isascii() or any(mark <= " " for mark in url):
        raise BadWebhook("--webhook is not an https address. Write https://host/path, or leave it out.")
    if parts.username is not None:
        raise BadWebhook("--webhook has a user before its host. Give the secret in its path, as Slack does.")
    query = f"?{parts.query}" if parts.query else ""
    return host, port or 443, f"{parts.path or '/'}{query}"


def reachable(host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """The addresses a host has at this moment, if every one of them may be reached; they are the ones to connect to."""
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for text in found:
        if not may_reach(text, allowed):
            raise RefusedAddress(
                f"The webhook's host {host!r} is at {text}, which is not public. "
                f"If that is meant: --webhook-allow {text}."
            )
    return list(dict.fromkeys(found))


def may_reach(text: str, allowed: Sequence[Network]) -> bool:
    """Whether an address is listed, or public however it is written.

    >>> may_reach("8.8.8.8", []), may_reach("::ffff:127.0.0.1", []), may_reach("10.1.2.3", networks_of(["10.0.0.0/8"]))
    (True, False, True)
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for network in allowed if network.version == address.version):
        return True
    return all(one.is_global and not one.is_multicast for one in (address, *_inner(address)))


def _inner(address: Address) -> list[Address]:
    """The IPv4 addresses written inside an IPv6 one."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    embedded = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in NAT64:
        embedded.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in embedded if one is not None]
