"""The relay: rows read in order, sent, waited for, and only then removed.

own the table ──▶ read ──▶ park what is poison ──▶ send ──▶ in the log ──▶ remove
     1              2              3                 4          5            6
                                                     └── a crash here: sent again, with the same id ──┘

A sequence is drawn before its transaction commits, so "greater than the last" would pass over rows that commit late.
Here a row is to be sent as long as it is there: whoever commits late is sent late, and nobody is passed over.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from headrace.declare.stream import Stream
from headrace.log.follow import ASK_SECONDS
from headrace.log.ledger import code_of
from headrace.log.offsets import Offsets
from headrace.log.produce import NotDelivered, Producer
from headrace.log.topics import largest_record
from headrace.outbox.letters import TOPIC, Letter, Letters, Poison
from headrace.outbox.table import Table, Waiting
from headrace.sink.writer import Away

AT_ONCE = 500
LOOK_SECONDS = 5.0
STEPS = ("owned", "read", "parked", "sent", "landed", "removed")

Reached = Callable[[str], None]


class Relay:
    """Brings the rows of one table to the log; `reached` is told of each of STEPS."""

    def __init__(
        self,
        table: Table,
        broker: str,
        streams: Mapping[str, Stream] | None = None,
        *,
        at_once: int = AT_ONCE,
        reached: Reached = lambda _: None,
    ) -> None:
        self.fates: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.waited_s = 0.0
        self._table, self._broker, self._at_once, self._reached = table, broker, at_once, reached
        self._letters = Letters(streams or {})
        self._topics = Topics(broker)
        self._producer: Producer | None = None

    @property
    def missing(self) -> list[str]:
        """Topics that rows wait for."""
        return sorted(self._topics.missing)

    def step(self) -> int:
        """Send what waits, so much at once; how many rows were dealt with."""
        self._table.require_ours()
        self._reached("owned")
        rows = self._topics.there(self._table.waiting(self._at_once, self._topics.still_missing()))
        self.waited_s = max(0.0, rows[0].waited_s) if rows else 0.0
        self._reached("read")
        letters, poison = self._sorted(rows)
        if poison:
            self._table.park(poison)
        self._reached("parked")
        if letters:
            self._send(letters)
            self._table.remove([letter.row.seq for letter in letters])
        self._reached("removed")
        self.fates.update({"sent": len(letters), "parked": len(poison)})
        self.reasons.update(map(code_of, poison.values()))
        return len(rows)

    def close(self) -> None:
        self._table.close()
        self._producer = None

    def _sorted(self, rows: Sequence[Waiting]) -> tuple[list[Letter], dict[int, str]]:
        """What can be sent, and why the rest cannot."""
        letters: list[Letter] = []
        poison: dict[int, str] = {}
        for row in rows:
            try:
                letters.append(self._letters.letter(row, self._topics.largest(row.stream)))
            except Poison as why:
                poison[row.seq] = str(why)
        return letters, poison

    def _send(self, letters: Sequence[Letter]) -> None:
        """In order and without gaps: what is not delivered makes the producer of no use, and the rows stay."""
        producer = self._producer = self._producer or Producer(self._broker, linger_ms=2, is_gapless=True)
        try:
            for letter in letters:
                producer.send(letter.row.stream, letter.value, key=letter.row.key, headers=letter.headers)
            self._reached("sent")
            producer.flush()
        except NotDelivered as failure:
            self._producer, self._topics = None, Topics(self._broker)
            raise Away(f"{self._table.name}: {failure}") from failure
        self._reached("landed")


class Topics:
    """Which topics there are, and how large a record each takes; one that is missing is looked for now and then."""

    def __init__(self, broker: str) -> None:
        self.missing: set[str] = set()
        self._broker, self._largest = broker, dict[str, int]()
        self._look_at = 0.0

    def still_missing(self) -> set[str]:
        """Those that were missing when last looked, which is not long ago."""
        if self.missing and time.monotonic() >= self._look_at:
            self.missing = set()
        return self.missing

    def there(self, rows: Sequence[Waiting]) -> list[Waiting]:
        """Those whose topic is there, or never will be: rows of one that may come stay, and hold up nobody else."""
        asked = {row.stream for row in rows if TOPIC.fullmatch(row.stream)} - self._largest.keys()
        if asked:
            found = {partition.topic for partition in Offsets(self._broker, ASK_SECONDS).partitions(asked)}
            self._largest |= {name: largest_record(self._broker, name) for name in found}
            if asked - found:
                self.missing |= asked - found
                self._look_at = time.monotonic() + LOOK_SECONDS
        return [row for row in rows if row.stream not in self.missing]

    def largest(self, topic: str) -> int:
        return self._largest.get(topic, 0)
