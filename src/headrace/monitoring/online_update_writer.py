"""Writes online updates: each counted label is an update once, with the served vector.

a batch of changes ──▶ first labels of the learner's own predictions ──▶ pages ──▶ fraud.lessons

A batch that is repeated after a crash has the same updates in the same order: those in the log already are skipped.
A page is sent once the one before it is in the log, so that there is never a gap.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.models.model import Model
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import Partition
from headrace.kafka.record_deletion import delete_records
from headrace.models.online_learning.online_updates import (
    GENERATION_SIZE,
    OnlineUpdate,
    UpdatePage,
    decode_page,
    encode_page,
)

UPDATES_PER_PAGE = 500
MAX_PAGE_BYTES = 500_000
LOOKBACK_RECORDS = 100  # the number of records searched for the last page


@dataclass
class OnlineUpdateWriter:
    """Writes the online updates of a model's outcomes, as the only writer."""

    model: Model
    broker: str
    generation: int = GENERATION_SIZE
    _last_page: UpdatePage = field(default=UpdatePage("", 0, -1, 0, (0, 0), ()))

    def open(self, epoch: str) -> None:
        """Continue after the pages in the log; another epoch has other outcomes."""
        newest_pages = (
            decode_page(record.value)
            for record in LastRecordsReader(self.broker, self.model.lessons, LOOKBACK_RECORDS).read_new_records()
        )
        pages = [page for page in newest_pages if page is not None and page.epoch == epoch]
        end = self._end_offset()
        self._last_page = pages[-1] if pages else UpdatePage(epoch, 0, -1, 0, (end, end), ())

    def write_updates(self, changes: pa.Table, batch: int) -> None:
        """Send the updates of a batch that are not in the log yet."""
        if not changes.num_rows or batch < self._last_page.batch:
            return
        written_count = self._last_page.place + len(self._last_page.lessons) if batch == self._last_page.batch else 0
        updates = updates_from_changes(changes)[written_count:]
        with Producer(self.broker) as producer:
            for page_updates in self._split_pages(updates):
                self._send_page(
                    producer,
                    UpdatePage(
                        self._last_page.epoch,
                        self._last_page.end,
                        batch,
                        written_count,
                        self._generation_begins(),
                        tuple(page_updates),
                    ),
                )
                written_count += len(page_updates)

    def _send_page(self, producer: Producer, page: UpdatePage) -> None:
        producer.send(self.model.lessons, encode_page(page))
        producer.flush()
        if page.begins != self._last_page.begins:
            delete_records(self.broker, Partition(self.model.lessons, 0), page.begins[0])
        self._last_page = page

    def _generation_begins(self) -> tuple[int, int]:
        """The offsets at which the generation before the next page's starts, and its own."""
        previous_begin, current_begin = self._last_page.begins
        is_new = self._last_page.end > 0 and self._last_page.end % self.generation == 0
        return (current_begin, self._end_offset()) if is_new else (previous_begin, current_begin)

    def _split_pages(self, updates: list[OnlineUpdate]) -> Iterator[list[OnlineUpdate]]:
        """Split updates into pages: each fits the log's record size, and has updates of one generation."""
        page: list[OnlineUpdate] = []
        size, next_number = 0, self._last_page.end
        for update in updates:
            page.append(update)
            size, next_number = size + len(orjson.dumps(update.features)), next_number + 1
            if len(page) == UPDATES_PER_PAGE or size > MAX_PAGE_BYTES or next_number % self.generation == 0:
                yield page
                page, size = [], 0
        if page:
            yield page

    def _end_offset(self) -> int:
        return OffsetClient(self.broker).end_offset_list(self.model.lessons)[0]


def updates_from_changes(changes: pa.Table) -> list[OnlineUpdate]:
    """The updates among some changes, in the order of their minutes and ids."""
    rows = changes.filter(pc.is_valid(changes["features"])).sort_by([("minute_us", "ascending"), ("id", "ascending")])
    plain_rows = rows.select(["id", "features", "label_after"]).to_pylist()
    return [OnlineUpdate(row["id"], orjson.loads(row["features"]), row["label_after"]) for row in plain_rows]
