"""Redis: a hash for each key, with the offsets moved in the same script."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import orjson
import redis

from headrace.declare.sink import OFFSET, PARTITION, Sink
from headrace.declare.targets import Redis
from headrace.log.placed import Place, Places
from headrace.log.records import Partition
from headrace.sink.rows import Row
from headrace.sink.secrets import secret_of, without
from headrace.sink.texts import field_text
from headrace.sink.writer import Away, Moved, Moves, SinkPlace, Writer
from headrace.tiles.frequent import key_text

ANSWER_SECONDS = 10.0
MOVED = "moved"

# KEYS[1]  the hash of this sink's places: partition → next offset and last raw offset
# KEYS[2…] the hashes of rows
# ARGV[1]  how many places move; then of each its partition, the next offset it has, the place it gets
# ARGV[…]  'first' or 'last'; then of each row its partition, its offset, and its fields as a JSON list
#
# Nothing is written where a place is not what it should be: another copy of the sink has been here.
WRITE = f"""
local moves = tonumber(ARGV[1])
for i = 2, 3 * moves, 3 do
  local held = redis.call('HGET', KEYS[1], ARGV[i]) or '-1 -1'
  if string.match(held, '^%S+') ~= ARGV[i + 1] then return '{MOVED} ' .. ARGV[i] .. ' ' .. held end
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


class RedisWriter(Writer):
    """Writes hashes named `prefix:key`; nulls are absent, and what is no text is as JSON has it."""

    most_rows: ClassVar[int] = 1000
    keeps_places: ClassVar[bool] = True

    def __init__(self, sink: Sink, place: SinkPlace) -> None:
        super().__init__(sink, place)
        self._target: Redis = sink.to  # type: ignore[assignment]  # chosen by it
        self._kept = f"headrace:sink:{sink.slug}"
        self._client: redis.Redis | None = None

    def open(self) -> None:
        self._ask(lambda client: client.ping())

    def places(self, partitions: Iterable[Partition]) -> Places:
        wanted = list(partitions)
        found = self._ask(lambda client: client.hmget(self._kept, [str(at) for at in wanted]))
        return {at: _place(held) for at, held in zip(wanted, found, strict=True)}

    def write(self, rows: Sequence[Row], moves: Moves | None = None) -> None:
        chosen = self.distinct(rows)
        keys = [self._kept, *(self._key(row) for row in chosen)]
        arguments = [len(moves or {}), *_moved(moves or {}), self.sink.wins, *_written(chosen, self.sink.columns)]
        said = self._ask(lambda client: client.eval(WRITE, len(keys), *keys, *arguments)).decode()
        if said.startswith(MOVED):
            raise Moved(f"{self.sink.name}: another copy of the sink has {said}; this one goes on from there.")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _ask(self, work: Any) -> Any:
        url = secret_of(self._target.url, self.sink.name)
        if self._client is None:
            self._client = redis.Redis.from_url(
                url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
            )
        try:
            return work(self._client)
        except (redis.RedisError, OSError, ValueError) as failure:
            said = without(failure, url) or type(failure).__name__
            raise Away(f"{self.sink.name}: Redis does not take rows: {said}.") from failure

    def _key(self, row: Row) -> str:
        return ":".join([self._target.prefix, *(key_text(row.values[name]) for name in self.sink.key)])


def _moved(moves: Moves) -> Iterable[str | int]:
    for at, move in moves.items():
        yield from (str(at), str(move.before.next_offset), f"{move.after.next_offset} {move.after.last_raw}")


def _written(rows: Sequence[Row], columns: Sequence[str]) -> Iterable[str | int | bytes]:
    for row in rows:
        values = [(name, row.values[name]) for name in columns if row.values[name] is not None]
        fields = [text for name, value in values for text in (name, field_text(value))]
        yield from (row.partition, row.offset, orjson.dumps(fields))


def _place(held: bytes | None) -> Place:
    return Place() if held is None else Place(*map(int, held.split()))
