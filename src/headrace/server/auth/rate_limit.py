"""Rate limit by token bucket: so many requests a second, with a burst of two seconds' worth.

tokens in the bucket  ▇▇▇▇▇▇▇▇  each request takes one; an empty bucket refills with time, at `rate`
"""

import ipaddress

MAX_ADDRESSES = 10_000


class TokenBucket:
    """The tokens left to one client."""

    __slots__ = ("_rate", "_refilled_at", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._tokens, self._refilled_at = rate, rate, now

    def try_acquire(self, now: float) -> bool:
        """Take one token, if there is one."""
        if self._tokens < 1.0:  # refilled only when empty, so most requests cost a subtraction
            self._tokens, self._refilled_at = (
                min(self._tokens + (now - self._refilled_at) * self._rate, self._rate),
                now,
            )
            if self._tokens < 1.0:
                return False
        self._tokens -= 1.0
        return True

    def is_full(self, now: float) -> bool:
        """Whether the client sent nothing lately."""
        return self._tokens + (now - self._refilled_at) * self._rate >= self._rate


class AddressRateLimiter:
    """A bucket for each address, up to a maximum number of addresses."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: dict[str, TokenBucket] = {}

    def try_acquire(self, address: str, now: float) -> bool:
        """Take one token of an address, if there is one."""
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= MAX_ADDRESSES:
                self._evict_idle(now)
            bucket = self._buckets[address] = TokenBucket(self._rate, now)
        return bucket.try_acquire(now)

    def _evict_idle(self, now: float) -> None:
        """Drop full buckets; if too many remain, drop all: with so many addresses the limit cannot be strict."""
        self._buckets = {address: bucket for address, bucket in self._buckets.items() if not bucket.is_full(now)}
        if len(self._buckets) >= MAX_ADDRESSES:
            self._buckets.clear()


def client_network(address: str) -> str:
    """The address that is rate limited; of IPv6 the /64 network, which one customer owns.

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
