"""Filters repeated predictions: among those with one event, version and role the first counts.

offsets   … 40 (p1, 3, champion) … 71 (p1, 3, champion) …     71 is a repeat, unless over WITHIN records are between

Whether a record is a repeat depends on its partition alone. A reader that starts later reads that many records before.
"""

from hashlib import blake2b

DUPLICATE_WINDOW_RECORDS = 50_000


class DuplicatePredictionFilter:
    """The keys of the last records of each partition; bounded."""

    def __init__(self, window_records: int = DUPLICATE_WINDOW_RECORDS) -> None:
        self.window_records = window_records
        self._offsets_by_digest: dict[int, dict[bytes, int]] = {}
        self._next_offsets: dict[int, int] = {}

    def begin_partition(self, partition: int, offset: int) -> int:
        """The offset from which a partition must be read to recognize repeats at an offset."""
        if (
            self._next_offsets.pop(partition, None) == offset
        ):  # discarded before `end_partition`: a failed step must not leave its keys
            return offset
        self._offsets_by_digest[partition] = {}
        return max(0, offset - self.window_records)

    def end_partition(self, partition: int, offset: int) -> None:
        """Keep the keys of all records before an offset."""
        self._next_offsets[partition] = offset

    def observe_record(self, partition: int, offset: int, *identity: bytes) -> bool:
        """Whether a record is the first with its key."""
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
