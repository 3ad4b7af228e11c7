"""Which addresses a webhook may reach: public ones, and those that are listed."""

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from headrace.errors import HeadraceError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# An address in these networks is another notation of an IPv4 address: mapped (RFC 4291), and by NAT64 (RFC 6052).
IPV4_EMBEDDING_NETWORKS = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))
# Every other public IPv6 address is global unicast: compatible and translated IPv4 (::/96, ::ffff:0:0:0/96), the NAT64
# of a network of its own (64:ff9b:1::/48), site-local (fec0::/10) and unassigned addresses are not.
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
# What is not globally reachable by the registries of IANA, whichever version of Python lists it; and tunnels over
# IPv4 (6to4, Teredo and their relays), which lead wherever the inner address does.
NON_PUBLIC_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
            "2001::/23",
            "2001:db8::/32",
            "2002::/16",
            "3fff::/20",
        ],
    )
)


class BadWebhook(HeadraceError):
    """A webhook that is invalid as written."""


class AddressRefused(HeadraceError):
    """A webhook's host resolves to an address that is neither public nor listed."""


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse listed addresses and networks."""
    try:
        return tuple(ipaddress.ip_network(text.strip()) for text in texts if text.strip())
    except ValueError as error:
        raise BadWebhook(f"--webhook-allow: {error}. Write an address or a network: 10.1.2.3 or 10.0.0.0/8.") from error


def require_https(url: str) -> tuple[str, int, str]:
    """Host, port and path of a webhook; its path may be a secret and is never logged."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "https" or not host or not url.isascii() or any(char <= " " for char in url):
        raise BadWebhook("--webhook is not an https address. Write https://host/path, or leave it out.")
    if parts.username is not None:
        raise BadWebhook("--webhook has a user before its host. Give the secret in its path, as Slack does.")
    query = f"?{parts.query}" if parts.query else ""
    return host, port or 443, f"{parts.path or '/'}{query}"


def resolve_allowed_addresses(host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """The addresses a host resolves to, if every one of them is allowed; the client connects to these."""
    addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for address in addresses:
        if not is_allowed(address, allowed):
            raise AddressRefused(
                f"The webhook's host {host!r} is at {address}, which is not public. "
                f"If that is meant: --webhook-allow {address}."
            )
    return list(dict.fromkeys(addresses))


def is_allowed(address_text: str, allowed: Sequence[Network]) -> bool:
    """Whether an address is listed, or public in whatever notation.

    >>> private = parse_networks(["10.0.0.0/8"])
    >>> is_allowed("8.8.8.8", []), is_allowed("::ffff:127.0.0.1", []), is_allowed("10.1.2.3", private)
    (True, False, True)
    """
    address = ipaddress.ip_address(address_text.partition("%")[0])
    if any(address in network for network in allowed if network.version == address.version):
        return True
    return _is_public(_unwrap_ipv4(address))


def _is_public(address: Address) -> bool:
    is_unicast = address.version == 4 or address in GLOBAL_UNICAST
    is_special = any(address in network for network in NON_PUBLIC_NETWORKS if network.version == address.version)
    return is_unicast and not is_special and address.is_global


def _unwrap_ipv4(address: Address) -> Address:
    """The IPv4 address that an IPv6 address embeds; others unchanged."""
    if any(address in network for network in IPV4_EMBEDDING_NETWORKS if network.version == address.version):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
