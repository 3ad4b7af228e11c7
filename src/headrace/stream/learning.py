"""A gate learns schemas: those of its subject before it runs and every few seconds, an id it has not met when it does.

    registry ──versions──▶ known ──▶ the gate's plan     payments: … 3 3 3 7 …
        ▲                    │                                           └ 7 is not in the plan: the query fails,
        └──── which is 7? ───┴─ beside the checkpoint                      7 is asked for, and it goes on from there

So a record is a dead letter for its id only when the registry itself has said that there is no such id.
"""

import logging
import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.between import records_between
from headrace.log.offsets import Offsets
from headrace.log.schemas.known import FILE, Known, as_text, read_known
from headrace.log.schemas.registry import Registered, Registry, RegistryAway, registry_at
from headrace.log.schemas.wire import schema_id_of
from headrace.stream.checkpoints import committed_places, write_whole

POLL_SECONDS = 5.0
POLL_ANSWER_SECONDS = 2.0
AGAIN_SECONDS = 2.0
LOOKED_AHEAD = 50_000
UNMET = "headrace: schema id"  # how the gate's error begins; the id follows
LOGGER = logging.getLogger("headrace.stream")
_UNMET = re.compile(rf"{UNMET} (\d+)")


class Learning:
    """What one gate knows of its stream's schemas, and how it comes to know more."""

    def __init__(self, stream: Stream, broker: str, checkpoint: Path) -> None:
        assert stream.encoded is not None  # noqa: S101  # only such streams have schemas to learn
        self._stream, self._encoded, self._broker = stream, stream.encoded, broker
        self._checkpoint, self._file = checkpoint, checkpoint.with_name(FILE)
        self._polled, self._was_away = 0.0, False
        self.known = read_known(self._file)

    def held(self) -> object:
        """What the plan of a gate holds; asked every second, it looks for new versions every few."""
        if time.monotonic() - self._polled > POLL_SECONDS:
            self._poll()
            self._polled = time.monotonic()
        return self.known.schemas

    def _poll(self) -> None:
        registry = registry_at(self._encoded.registry, POLL_ANSWER_SECONDS)
        try:
            if self.known.versions.issuperset(registry.numbers(self._encoded.subject)):
                self._was_away = False
                return
            versions = registry.versions(self._encoded.subject)
        except HeadraceError as away:
            if not self._was_away:
                LOGGER.warning("%s: goes on with the schemas it knows: %s", self._stream.name, away)
            self._was_away = True
            return
        self._learn({one.schema.id: one.schema for one in versions}, [one.number for one in versions])

    def mend(self, _spark: SparkSession, failure: Exception) -> None:
        """Ask for the ids a gate has not met, if that is what it failed for; else the failure stands."""
        found = _UNMET.search(str(failure)) if isinstance(failure, PySparkException) else None
        if found is None:
            raise failure
        wanted = {int(found[1]), *islice(self._unmet(), Known.MANY)} - self.known.schemas.keys()
        LOGGER.info("%s: asks for schema %s", self._stream.name, ", ".join(map(str, sorted(wanted))))
        registry = registry_at(self._encoded.registry)
        self._learn({schema_id: self._asked(registry, schema_id) for schema_id in sorted(wanted)})

    def _unmet(self) -> Iterator[int]:
        """The ids, each once, that wait before the gate and are not known."""
        ends = Offsets(self._broker).end([self._stream.name])
        done = committed_places(self._checkpoint)
        begins = {at: max(first, done.get(at, 0)) for at, first in Offsets(self._broker).begin_of(ends).items()}
        seen = set(self.known.schemas)
        for record in islice(records_between(self._broker, begins, ends), LOOKED_AHEAD):
            schema_id = schema_id_of(record.value)
            if schema_id is not None and schema_id not in seen:
                seen.add(schema_id)
                yield schema_id

    def _asked(self, registry: Registry, schema_id: int) -> Registered | None:
        """What the registry says of an id; while it is away it is waited for, for nobody else can say."""
        is_told = False
        while True:
            try:
                return registry.by_id(schema_id)
            except RegistryAway as away:
                if not is_told:
                    LOGGER.warning("%s waits to learn schema %d: %s", self._stream.name, schema_id, away)
                is_told = True
                time.sleep(AGAIN_SECONDS)

    def _learn(self, schemas: dict[int, Registered | None], versions: list[int] | None = None) -> None:
        self.known = self.known.and_(schemas, versions or ())
        write_whole(self._file, as_text(self.known))
