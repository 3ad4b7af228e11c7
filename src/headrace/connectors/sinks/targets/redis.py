"""Redis: a hash for each key, with the offsets moved in the same script."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import orjson
import redis

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.connectors.sinks.connection_secrets import redact_secret, resolve_address
from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.connectors.sinks.text_values import to_field_text
from headrace.connectors.sinks.writer import OffsetMoves, SinkConfig, SinkFencedError, SinkWriter, TargetUnavailable
from headrace.declare.sinks.sink import OFFSET, PARTITION, Sink
from headrace.declare.sinks.targets import Redis
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.record import Partition

RESPONSE_TIMEOUT_SECONDS = 10.0
FENCED_REPLY = "moved"

# KEYS[1]  the hash of this sink's offsets: partition → next offset and last raw offset
# KEYS[2…] the hashes of rows
# ARGV[1]  the number of partitions that move; then for each its number, its expected and its new offsets
# ARGV[…]  'first' or 'last'; then for each row its partition, its offset, and its fields as a JSON list
#
# Writes nothing if an offset is not the expected one: another copy of the sink has written.
WRITE_SCRIPT = f"""
local moves = tonumber(ARGV[1])
for i = 2, 3 * moves, 3 do
  local held = redis.call('HGET', KEYS[1], ARGV[i]) or '-1 -1'
  if string.match(held, '^%S+') ~= ARGV[i + 1] then return '{FENCED_REPLY} ' .. ARGV[i] .. ' ' .. held end
end
local at = 3 * moves + 2
local wins = ARGV[at]
for i = 2, #KEYS do
  local partition, offset, fields = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  at = at + 3
  local held = redis.call('HMGET', KEYS[i], '{PARTITION}', '{OFFSET}')
  local news = not held[2] or (wins == 'last' and (held[1] ~= partition or tonumber(held[2]) < tonumber(offset)))
  if news then
    redis.call('DEL', KEYS[i])
    redis.call('HSET', KEYS[i], '{PARTITION}', partition, '{OFFSET}', offset, unpack(cjson.decode(fields)))
  end
end
for i = 2, 3 * moves, 3 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2]) end
return 'written'
"""


class RedisWriter(SinkWriter):
    """Writes hashes named `prefix:key`; nulls are absent, and values other than texts are JSON."""

    max_rows: ClassVar[int] = 1000
    stores_offsets: ClassVar[bool] = True

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        super().__init__(sink, config)
        self._target: Redis = sink.to  # type: ignore[assignment]  # its class selects this writer
        self._offsets_key = f"headrace:sink:{sink.slug}"
        self._client: redis.Redis | None = None

    def open(self) -> None:
        self._run_command(lambda client: client.ping())

    def read_offsets(self, partitions: Iterable[Partition]) -> ExternalOffsets:
        partition_list = list(partitions)
        stored_values = self._run_command(
            lambda client: client.hmget(self._offsets_key, [str(partition) for partition in partition_list])
        )
        return {at: _parse_offset(stored_value) for at, stored_value in zip(partition_list, stored_values, strict=True)}

    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:
        unique_rows = self.deduplicate_rows(rows)
        keys = [self._offsets_key, *(self._row_key(row) for row in unique_rows)]
        arguments = [
            len(moves or {}),
            *_move_arguments(moves or {}),
            self.sink.conflict_policy,
            *_row_arguments(unique_rows, self.sink.columns),
        ]
        reply = self._run_command(lambda client: client.eval(WRITE_SCRIPT, len(keys), *keys, *arguments)).decode()
        if reply.startswith(FENCED_REPLY):
            raise SinkFencedError(
                f"{self.sink.name}: another copy of the sink has {reply}; this one continues from there."
            )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _run_command(self, command: Any) -> Any:
        url = resolve_address(self._target.url, self.sink.name)
        if self._client is None:
            self._client = redis.Redis.from_url(
                url, socket_timeout=RESPONSE_TIMEOUT_SECONDS, socket_connect_timeout=RESPONSE_TIMEOUT_SECONDS
            )
        try:
            return command(self._client)
        except (redis.RedisError, OSError, ValueError) as failure:
            message = redact_secret(failure, url) or type(failure).__name__
            raise TargetUnavailable(f"{self.sink.name}: Redis does not take rows: {message}.") from failure

    def _row_key(self, row: SinkRow) -> str:
        return ":".join([self._target.prefix, *(key_text(row.values[name]) for name in self.sink.key)])


def _move_arguments(moves: OffsetMoves) -> Iterable[str | int]:
    for partition, move in moves.items():
        yield from (
            str(partition),
            str(move.before.next_offset),
            f"{move.after.next_offset} {move.after.last_raw_offset}",
        )


def _row_arguments(rows: Sequence[SinkRow], columns: Sequence[str]) -> Iterable[str | int | bytes]:
    for row in rows:
        values = [(name, row.values[name]) for name in columns if row.values[name] is not None]
        fields = [text for name, value in values for text in (name, to_field_text(value))]
        yield from (row.partition, row.offset, orjson.dumps(fields))


def _parse_offset(stored_value: bytes | None) -> ExternalOffset:
    return ExternalOffset() if stored_value is None else ExternalOffset(*map(int, stored_value.split()))
