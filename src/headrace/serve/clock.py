"""Moments as answers write them."""

from headrace.tiles.finish import moment

SECOND_US = 1_000_000


class Clock:
    """Writes moments in ISO 8601; the second they are in is written once, for most requests ask for now.

    >>> Clock().iso(1_500_000)
    b'1970-01-01T00:00:01.500000Z'
    """

    def __init__(self) -> None:
        self._second, self._written = 0, b"1970-01-01T00:00:00"

    def iso(self, time_us: int) -> bytes:
        second, rest_us = divmod(time_us, SECOND_US)
        if second != self._second:
            self._written = moment(second * SECOND_US).isoformat()[:19].encode()
            self._second = second
        return b"%b.%06dZ" % (self._written, rest_us) if rest_us else b"%bZ" % self._written
