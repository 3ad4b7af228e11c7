"""What the joins of predictions and labels have in common: where they are kept, how they go on, and what they tell."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.declare.model import Model
from headrace.declare.terms import terms_of
from headrace.errors import HeadraceError
from headrace.evaluate import standing
from headrace.evaluate.book import Book, Fold
from headrace.evaluate.clock import clock_of, patience_us
from headrace.evaluate.folding import quality_fold
from headrace.evaluate.lasting import Lasting
from headrace.evaluate.told import Feed
from headrace.lake.failure_state import FailureState
from headrace.lake.lake import Lake
from headrace.lake.land import writing_session
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.progress import OutcomesProgress, report
from headrace.stream.checkpoints import write_whole
from headrace.stream.clock import Ends

RETRY_SECONDS = 5.0
TERMS = "terms"


@dataclass(frozen=True)
class Pace:
    """How often changes are made, in the stream and in the lake, and how often it is looked how far all is read."""

    batch_seconds: float = 10.0
    clock_seconds: float = 30.0
    report_seconds: float = 2.0
    round_seconds: float = 60.0


@dataclass(frozen=True)
class Place:
    """Where outcomes are kept: the lake, and the folder of checkpoints."""

    lake: Lake
    state: Path
    pace: Pace = Pace()

    def checkpoint(self, model: Model, kind: str) -> Path:
        return self.state.resolve() / "checkpoints" / f"{model.name}.{kind}"

    def gate(self, stream: str) -> Path:
        return self.state.resolve() / "checkpoints" / stream / "gate"


def folds_of(model: Model) -> Sequence[Fold]:
    """What the changes of a model are folded into."""
    return (standing.fold, quality_fold(model))


class OtherTerms(HeadraceError):
    """Labels that are declared otherwise than those that have been counted."""

    def __init__(self, model: Model, checkpoint: Path) -> None:
        super().__init__(
            f"{model.name}: what hr.Labels says has changed since its outcomes were counted, and what was counted by "
            f"other rules cannot be taken back. Undo the change; or move the checkpoint at {str(checkpoint)!r}, "
            f"gold/{model.name}_outcomes and gold/{model.name}_quality away and delete the topic {model.quality}: "
            "all is counted again, as far as the log or the lake goes back."
        )


def outcomes_not_set_up(model: Model, failure: FailureState) -> OutcomesProgress:
    """What is told of a model whose join could not even be set up: since when, and why."""
    return OutcomesProgress(
        judged=model.name,
        at_us=time.time_ns() // 1000,
        running=False,
        clock_us=0,
        lag=0,
        counts=[],
        delays=standing.Standing().delays.counts,
        delay_seconds=0.0,
        state_rows=0,
        state_bytes=0,
        down_since_us=failure.down_since_us,
        error=failure.error,
    )


class Join(Lasting):
    """The join of one model; one that fails is started again, and goes on where it was."""

    def __init__(self, spark: SparkSession, feed: Feed, place: Place) -> None:
        super().__init__(f"{feed.model.name}.outcomes", RETRY_SECONDS)
        self._spark, self._feed, self._place = writing_session(spark), feed, place
        self._terms = terms_of(feed.declared)
        self._teller = Producer(feed.broker)
        self._offsets = Offsets(feed.broker)
        self._clock = clock_of(feed.model, feed.labels, self._offsets, place.gate(feed.labels.name))
        self._clock_us, self._looked = 0, 0.0
        self.model, self.broker = feed.model, feed.broker
        self.book = Book(place.lake.folder, feed.model, folds_of(feed.model), Producer(feed.broker))

    def _open(self, checkpoint: Path) -> None:
        """Take up what is kept, if it was made by the same rules."""
        terms, known = json.dumps(asdict(self._terms)), checkpoint / TERMS
        if known.exists() and known.read_text() != terms:
            raise OtherTerms(self.model, checkpoint)
        self.book.open(checkpoint)
        write_whole(known, terms)

    def _known_until(self, joined: Ends) -> int | None:
        """Up to when all is known, looked up now and then; None where that is no news."""
        if time.monotonic() < self._looked + self._place.pace.clock_seconds:
            return None
        self._looked = time.monotonic()
        at_us = self._clock.look(joined)
        return None if at_us is None else at_us - patience_us(self._terms.within_us)

    def _tell(self, joined: Ends, *, running: bool = True, state_rows: int = 0, state_bytes: int = 0) -> None:
        known = standing.standing_of(self.book.tiles)
        progress = OutcomesProgress(
            judged=self._feed.model.name,
            at_us=time.time_ns() // 1000,
            running=running,
            clock_us=self._clock_us,
            lag=self._lag(joined),
            counts=known.rows(),
            delays=known.delays.counts,
            delay_seconds=known.delays.total_seconds,
            state_rows=state_rows,
            state_bytes=state_bytes,
            down_since_us=self._failure.down_since_us,
            error=self._failure.error,
        )
        report(self._teller, progress)

    def _report_failure(self) -> None:
        self._tell({}, running=False)

    def _lag(self, joined: Ends) -> int:
        topics = (self._feed.model.predictions, self._feed.labels.clean)
        ends, begins = self._offsets.end(topics), self._offsets.begin(topics)
        return sum(end - max(joined.get(at, 0), begins[at]) for at, end in ends.items())
