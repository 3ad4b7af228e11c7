"""How often somebody may ask: so many requests a second, and as many at once as two seconds have.

requests saved up   ▇▇▇▇▇▇▇▇  each request takes one; when none is left, time has brought them back, `rate` at most
"""

import ipaddress

MOST_ADDRESSES = 10_000


class Bucket:
    """What is left to one who asks."""

    __slots__ = ("_at", "_left", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._left, self._at = rate, rate, now

    def take(self, now: float) -> bool:
        """Whether one more may be asked now."""
        if self._left < 1.0:  # it is filled when it is empty: most requests cost a subtraction
            self._left, self._at = min(self._left + (now - self._at) * self._rate, self._rate), now
            if self._left < 1.0:
                return False
        self._left -= 1.0
        return True

    def is_full(self, now: float) -> bool:
        """Whether nothing was asked lately."""
        return self._left + (now - self._at) * self._rate >= self._rate


class Buckets:
    """A bucket for each address, of as many as are remembered."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._of: dict[str, Bucket] = {}

    def take(self, address: str, now: float) -> bool:
        """Whether an address may ask once more."""
        bucket = self._of.get(address)
        if bucket is None:
            if len(self._of) >= MOST_ADDRESSES:
                self._forget(now)
            bucket = self._of[address] = Bucket(self._rate, now)
        return bucket.take(now)

    def _forget(self, now: float) -> None:
        """Those who asked nothing lately; if all did, all: there is no room to be strict with so many."""
        self._of = {address: bucket for address, bucket in self._of.items() if not bucket.is_full(now)}
        if len(self._of) >= MOST_ADDRESSES:
            self._of.clear()


def neighbourhood(address: str) -> str:
    """An address, or of IPv6 the network of one customer, who has all of its addresses.

    >>> neighbourhood("192.0.2.7"), neighbourhood("2001:db8:1:2:3::9"), neighbourhood("elsewhere")
    ('192.0.2.7', '2001:db8:1:2::/64', 'elsewhere')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
