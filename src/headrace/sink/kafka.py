"""A topic of Kafka: each row with the place it was read from, by which a reader knows what was written again."""

from collections.abc import Sequence
from typing import Any, ClassVar

import orjson

from headrace.declare.sink import Sink
from headrace.declare.sunk import order_of
from headrace.declare.targets import Kafka
from headrace.errors import HeadraceError
from headrace.log.ledger import OFFSET, PARTITION, TOPIC
from headrace.log.letters import ORIGIN
from headrace.log.produce import NotDelivered, Producer
from headrace.log.schemas.encode import AvroEncoder, Unwritable
from headrace.log.topics import largest_record
from headrace.sink.rows import Row
from headrace.sink.schemas import encoder_for
from headrace.sink.secrets import secret_of
from headrace.sink.texts import jsonable
from headrace.sink.writer import Away, Moves, Rejected, SinkPlace, Writer
from headrace.tiles.event_json import JSON
from headrace.tiles.frequent import key_text

ROOM = 1024  # of a record's bytes, for its headers and what the log adds


class KafkaWriter(Writer):
    """Writes to one topic, in the order of what it reads and without gaps: after a failure with a new producer."""

    most_rows: ClassVar[int] = 5000

    def __init__(self, sink: Sink, place: SinkPlace) -> None:
        super().__init__(sink, place)
        self._target: Kafka = sink.to  # type: ignore[assignment]  # chosen by it
        self._key = sink.key or (order_of(sink.of),)
        self._producer: Producer | None = None
        self._largest = 0
        self._encoder: AvroEncoder | None = None

    def open(self) -> None:
        broker = self._broker
        try:
            self._encoder = encoder_for(self.sink)
            self._largest = largest_record(broker, self._target.topic)
        except HeadraceError as failure:
            raise Away(f"{self.sink.name}: {failure}") from failure

    def write(self, rows: Sequence[Row], moves: Moves | None = None) -> None:  # noqa: ARG002  # keeps no places
        if not self._largest:
            self.open()
        encoded = [(row, self._encoded(row)) for row in rows]
        for row, value in encoded:
            if len(value) + ROOM > self._largest:
                raise Rejected(f"too-large: {len(value)} bytes, and the topic takes {self._largest}; {row.place}")
        producer = self._producer = self._producer or Producer(self._broker, linger_ms=2, is_gapless=True)
        try:
            for row, value in encoded:
                producer.send(self._target.topic, value, key=self._key_of(row), headers=self._headers(row))
            producer.flush()
        except NotDelivered as failure:
            self._producer = None
            raise Away(f"{self.sink.name}: {failure}") from failure

    def _encoded(self, row: Row) -> bytes:
        if self._encoder is None:
            return orjson.dumps(jsonable(row.values), option=JSON)
        try:
            return self._encoder.encode(row.values)
        except Unwritable as why:
            raise Rejected(f"{why}; {row.place}") from why

    @property
    def _broker(self) -> str:
        if self._target.broker is None:
            return self.place.broker
        return secret_of(self._target.broker, self.sink.name)

    def _key_of(self, row: Row) -> str:
        return ":".join(key_text(row.values[name]) for name in self._key)

    def _headers(self, row: Row) -> list[tuple[str, Any]]:
        record = row.record
        read_from = [(TOPIC, record.topic), (PARTITION, str(record.partition)), (OFFSET, str(record.offset))]
        return [*read_from, (ORIGIN, row.place)]
