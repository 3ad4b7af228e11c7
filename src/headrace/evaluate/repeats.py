"""Records of predictions that tell again what was told: of those with one event, version and role the first counts.

offsets   … 40 (p1, 3, champion) … 71 (p1, 3, champion) …     71 is a repeat, unless more than WITHIN are between them

Whether a record is one is a property of its partition alone. Whoever begins later reads so many before it first.
"""

from hashlib import blake2b

WITHIN = 50_000


class Repeats:
    """What the last so many records of each partition told; a bounded memory."""

    def __init__(self, within: int = WITHIN) -> None:
        self.within = within
        self._told: dict[int, dict[bytes, int]] = {}
        self._next: dict[int, int] = {}

    def begin(self, partition: int, offset: int) -> int:
        """From where a partition has to be read for what comes at an offset to be known for a repeat or not."""
        if self._next.pop(partition, None) == offset:  # until `end`: what is heard in a step that fails was not told
            return offset
        self._told[partition] = {}
        return max(0, offset - self.within)

    def end(self, partition: int, offset: int) -> None:
        """All records before an offset were heard."""
        self._next[partition] = offset

    def hear(self, partition: int, offset: int, *identity: bytes) -> bool:
        """Whether a record is the first that tells this."""
        told, key = self._told.setdefault(partition, {}), _digest(identity)
        last = told.get(key)
        told[key] = offset
        if len(told) > 2 * self.within:
            self._told[partition] = {one: at for one, at in told.items() if at > offset - self.within}
        return last is None or last < offset - self.within


def _digest(identity: tuple[bytes, ...]) -> bytes:
    told = blake2b(digest_size=12)
    for part in identity:
        told.update(len(part).to_bytes(4) + part)
    return told.digest()
