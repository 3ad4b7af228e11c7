"""How often somebody may ask: so many requests a second, and as many at once as two seconds have.

requests saved up   ▇▇▇▇▇▇▇▇  each request takes one; when none is left, time has brought them back, `rate` at most
"""

import ipaddress

MAX_ADDRESSES = 10_000


class TokenBucket:
    """What is left to one who asks."""

    __slots__ = ("_rate", "_refilled_at", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._tokens, self._refilled_at = rate, rate, now

    def try_acquire(self, now: float) -> bool:
        """Whether one more may be asked now."""
        if self._tokens < 1.0:  # it is filled when it is empty: most requests cost a subtraction
            self._tokens, self._refilled_at = (
                min(self._tokens + (now - self._refilled_at) * self._rate, self._rate),
                now,
            )
            if self._tokens < 1.0:
                return False
        self._tokens -= 1.0
        return True

    def is_full(self, now: float) -> bool:
        """Whether nothing was asked lately."""
        return self._tokens + (now - self._refilled_at) * self._rate >= self._rate


class AddressRateLimiter:
    """A bucket for each address, of as many as are remembered."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: dict[str, TokenBucket] = {}

    def try_acquire(self, address: str, now: float) -> bool:
        """Whether an address may ask once more."""
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= MAX_ADDRESSES:
                self._evict_idle(now)
            bucket = self._buckets[address] = TokenBucket(self._rate, now)
        return bucket.try_acquire(now)

    def _evict_idle(self, now: float) -> None:
        """Those who asked nothing lately; if all did, all: there is no room to be strict with so many."""
        self._buckets = {address: bucket for address, bucket in self._buckets.items() if not bucket.is_full(now)}
        if len(self._buckets) >= MAX_ADDRESSES:
            self._buckets.clear()


def client_network(address: str) -> str:
    """An address, or of IPv6 the network of one customer, who has all of its addresses.

    >>> client_network("192.0.2.7"), client_network("2001:db8:1:2:3::9"), client_network("elsewhere")
    ('192.0.2.7', '2001:db8:1:2::/64', 'elsewhere')
    """
    try:
        parsed_address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed_address, ipaddress.IPv4Address):
        return address
    return str(parsed_address.ipv4_mapped or ipaddress.ip_network((parsed_address, 64), strict=False))
