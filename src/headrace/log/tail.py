"""The last records of topics, read once."""

from collections.abc import Iterator

from headrace.log.between import records_between
from headrace.log.offsets import Offsets
from headrace.log.records import Partition, Record


class Tail:
    """Reads what has come to a topic since it was last asked, and to others beside it; so many records at most, of each
    partition as many.
    """

    def __init__(self, broker: str, topic: str, at_most: int, *beside: str) -> None:
        self._broker, self._topics, self._at_most = broker, (topic, *beside), at_most
        self._offsets = Offsets(broker)
        self._read: dict[Partition, int] = {}

    def news(self) -> Iterator[Record]:
        """The records, each partition's in their order."""
        ends = self._offsets.end(self._topics)
        share = self._at_most // max(1, len(ends))
        begins = {
            partition: max(begin, ends[partition] - share, self._read.get(partition, 0))
            for partition, begin in self._offsets.begin_of(ends).items()
        }
        self._read = ends
        yield from records_between(self._broker, begins, ends)
