"""What came of predictions, taught: each label that counts is a lesson once, with the vector that was served.

a batch of changes ──▶ first labels of the learner's own predictions ──▶ pages ──▶ fraud.lessons

A batch that comes again after a crash has the same lessons in the same order: those that are in the log already are
passed over. A page is sent once the one before it is in the log, so nothing is ever missing in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.model import Model
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.records import Partition
from headrace.log.tail import Tail
from headrace.log.trim import trim
from headrace.score.lessons import GENERATION, Lesson, Page, decode_page, encode_page

LESSONS_A_PAGE = 500
PAGE_BYTES = 500_000
NEWEST = 100  # records in which the last page is looked for


@dataclass
class Teacher:
    """Writes the lessons of a model's outcomes; the only one who does."""

    model: Model
    broker: str
    generation: int = GENERATION
    _last: Page = field(default=Page("", 0, -1, 0, (0, 0), ()))

    def open(self, epoch: str) -> None:
        """Go on after what is in the log; lessons of another epoch are of outcomes that are made anew."""
        newest = (decode_page(record.value) for record in Tail(self.broker, self.model.lessons, NEWEST).news())
        pages = [page for page in newest if page is not None and page.epoch == epoch]
        end = self._end()
        self._last = pages[-1] if pages else Page(epoch, 0, -1, 0, (end, end), ())

    def teach(self, changes: pa.Table, batch: int) -> None:
        """Send the lessons of a batch that are not in the log yet."""
        if not changes.num_rows or batch < self._last.batch:
            return
        known = self._last.place + len(self._last.lessons) if batch == self._last.batch else 0
        lessons = lessons_of(changes)[known:]
        with Producer(self.broker) as producer:
            for some in self._cut(lessons):
                self._send(producer, Page(self._last.epoch, self._last.end, batch, known, self._begins(), tuple(some)))
                known += len(some)

    def _send(self, producer: Producer, page: Page) -> None:
        producer.send(self.model.lessons, encode_page(page))
        producer.flush()
        if page.begins != self._last.begins:
            trim(self.broker, Partition(self.model.lessons, 0), page.begins[0])
        self._last = page

    def _begins(self) -> tuple[int, int]:
        """Where the generation before the next page's begins in the topic, and where its own does."""
        before, own = self._last.begins
        is_new = self._last.end > 0 and self._last.end % self.generation == 0
        return (own, self._end()) if is_new else (before, own)

    def _cut(self, lessons: list[Lesson]) -> Iterator[list[Lesson]]:
        """Lessons page by page: none is too large for the log, and none is of two generations."""
        page: list[Lesson] = []
        size, number = 0, self._last.end
        for lesson in lessons:
            page.append(lesson)
            size, number = size + len(orjson.dumps(lesson.features)), number + 1
            if len(page) == LESSONS_A_PAGE or size > PAGE_BYTES or number % self.generation == 0:
                yield page
                page, size = [], 0
        if page:
            yield page

    def _end(self) -> int:
        return Offsets(self.broker).ends(self.model.lessons)[0]


def lessons_of(changes: pa.Table) -> list[Lesson]:
    """The lessons among some changes, in the order of their minutes and ids."""
    rows = changes.filter(pc.is_valid(changes["features"])).sort_by([("minute_us", "ascending"), ("id", "ascending")])
    found = rows.select(["id", "features", "label_after"]).to_pylist()
    return [Lesson(row["id"], orjson.loads(row["features"]), row["label_after"]) for row in found]
