"""Records of predictions that tell again what was told: of those with one event, version and role the first counts.

offsets   … 40 (p1, 3, champion) … 71 (p1, 3, champion) …     71 is a repeat, unless more than WITHIN are between them

Whether a record is one is a property of its partition alone. Whoever begins later reads so many before it first.
"""

from hashlib import blake2b

DUPLICATE_WINDOW_RECORDS = 50_000


class DuplicatePredictionFilter:
    """What the last so many records of each partition told; a bounded memory."""

    def __init__(self, window_records: int = DUPLICATE_WINDOW_RECORDS) -> None:
        self.window_records = window_records
        self._offsets_by_digest: dict[int, dict[bytes, int]] = {}
        self._next_offsets: dict[int, int] = {}

    def begin_partition(self, partition: int, offset: int) -> int:
        """From where a partition has to be read for what comes at an offset to be known for a repeat or not."""
        if (
            self._next_offsets.pop(partition, None) == offset
        ):  # until `end`: what is heard in a step that fails was not told
            return offset
        self._offsets_by_digest[partition] = {}
        return max(0, offset - self.window_records)

    def end_partition(self, partition: int, offset: int) -> None:
        """All records before an offset were heard."""
        self._next_offsets[partition] = offset

    def observe_record(self, partition: int, offset: int, *identity: bytes) -> bool:
        """Whether a record is the first that tells this."""
        offsets, digest = self._offsets_by_digest.setdefault(partition, {}), _identity_digest(identity)
        last_offset = offsets.get(digest)
        offsets[digest] = offset
        if len(offsets) > 2 * self.window_records:
            self._offsets_by_digest[partition] = {
                known_digest: known_offset
                for known_digest, known_offset in offsets.items()
                if known_offset > offset - self.window_records
            }
        return last_offset is None or last_offset < offset - self.window_records


def _identity_digest(identity: tuple[bytes, ...]) -> bytes:
    digest = blake2b(digest_size=12)
    for part in identity:
        digest.update(len(part).to_bytes(4) + part)
    return digest.digest()
