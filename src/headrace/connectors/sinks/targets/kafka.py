"""A topic of Kafka: each row with its source offset, by which readers recognize duplicates."""

from collections.abc import Sequence
from typing import ClassVar

import orjson

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.connectors.sinks.connection_secrets import resolve_address
from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.connectors.sinks.sink_schemas import create_row_encoder
from headrace.connectors.sinks.text_values import to_json_values
from headrace.connectors.sinks.writer import OffsetMoves, RowsRejected, SinkConfig, SinkWriter, TargetUnavailable
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.sink_source import ordering_column
from headrace.declare.sinks.targets import Kafka
from headrace.errors import HeadraceError
from headrace.kafka.headers import OFFSET_HEADER, ORIGIN_HEADER, PARTITION_HEADER, TOPIC_HEADER, WrittenHeader
from headrace.kafka.producer.producer import DeliveryFailed, Producer
from headrace.kafka.schema_registry.record_encoder import AvroEncoder, EventEncodingError
from headrace.kafka.topics import max_record_bytes
from headrace.tiles.events.event_json import JSON_OPTIONS

RECORD_OVERHEAD_BYTES = 1024  # reserved for headers and the record's framing


class KafkaWriter(SinkWriter):
    """Writes to one topic, in source order and without gaps; uses a new producer after a failure."""

    max_rows: ClassVar[int] = 5000

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        super().__init__(sink, config)
        self._target: Kafka = sink.to  # type: ignore[assignment]  # its class selects this writer
        self._key_columns = sink.key or (ordering_column(sink.of),)
        self._producer: Producer | None = None
        self._max_bytes = 0
        self._avro_encoder: AvroEncoder | None = None

    def open(self) -> None:
        broker = self._broker
        try:
            self._avro_encoder = create_row_encoder(self.sink)
            self._max_bytes = max_record_bytes(broker, self._target.topic)
        except HeadraceError as failure:
            raise TargetUnavailable(f"{self.sink.name}: {failure}") from failure

    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:  # noqa: ARG002  # no offsets
        if not self._max_bytes:
            self.open()
        encoded_rows = [(row, self._encode_row(row)) for row in rows]
        for row, value in encoded_rows:
            if len(value) + RECORD_OVERHEAD_BYTES > self._max_bytes:
                raise RowsRejected(
                    f"too-large: {len(value)} bytes, and the topic accepts {self._max_bytes}; {row.location}"
                )
        producer = self._producer = self._producer or Producer(self._broker, linger_ms=2, is_gapless=True)
        try:
            for row, value in encoded_rows:
                producer.send(self._target.topic, value, key=self._record_key(row), headers=self._record_headers(row))
            producer.flush()
        except DeliveryFailed as failure:
            self._producer = None
            raise TargetUnavailable(f"{self.sink.name}: {failure}") from failure

    def _encode_row(self, row: SinkRow) -> bytes:
        if self._avro_encoder is None:
            return orjson.dumps(to_json_values(row.values), option=JSON_OPTIONS)
        try:
            return self._avro_encoder.encode(row.values)
        except EventEncodingError as error:
            raise RowsRejected(f"{error}; {row.location}") from error

    @property
    def _broker(self) -> str:
        if self._target.broker is None:
            return self.config.broker
        return resolve_address(self._target.broker, self.sink.name)

    def _record_key(self, row: SinkRow) -> str:
        return ":".join(key_text(row.values[name]) for name in self._key_columns)

    def _record_headers(self, row: SinkRow) -> list[WrittenHeader]:
        record = row.record
        return [
            TOPIC_HEADER.write(record.topic),
            PARTITION_HEADER.write(record.partition),
            OFFSET_HEADER.write(record.offset),
            ORIGIN_HEADER.write(row.location),
        ]
