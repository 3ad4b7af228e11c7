"""What a reader of a topic that a sink writes has to do to read each row once.

headrace.topic, headrace.partition, headrace.offset     where the sink read the row, as headers of the record

    0: 5   0: 9   1: 3   0: 5   0: 9   0: 12            in one partition, a sink that was killed between
    ✓      ✓      ✓      ·      ·      ✓                an offset that is not above the last one was written again

A sink writes without gaps and in order, so whatever comes again has come before.
"""

from collections.abc import Iterable

from headrace.log.ledger import OFFSET, PARTITION, TOPIC

Source = tuple[int, bytes, bytes]


class Once:
    """Tells a record that was written again from news; `last` is to be kept with what is made of the records.

    >>> once = Once()
    >>> def headers(offset): return [(TOPIC, b"payments.clean"), (PARTITION, b"0"), (OFFSET, b"%d" % offset)]
    >>> [once.is_news(2, headers(offset)) for offset in (5, 9, 5, 9, 12)]
    [True, True, False, False, True]
    """

    def __init__(self, last: dict[Source, int] | None = None) -> None:
        self.last = {} if last is None else last

    def is_news(self, partition: int, headers: Iterable[tuple[str, bytes]]) -> bool:
        """Whether a record of a partition, with these headers, is read for the first time."""
        said = dict(headers)
        source = partition, said[TOPIC], said[PARTITION]
        offset = int(said[OFFSET])
        if offset <= self.last.get(source, -1):
            return False
        self.last[source] = offset
        return True
