"""Lua scripts, which Redis runs atomically."""

# KEYS[1]  an entity's hash
# ARGV[1]  how long the hash lives without a change, ms; 0: forever
# ARGV[2]  the event time of the newest of these tiles, µs
# ARGV[3]  version and retention of each layout, 12 bytes each
# ARGV[4…] field and value of each tile; a value starts with start and n
#
# The greater n wins, so order and repetition do not matter. Whenever the hash has grown past a multiple of 16 fields,
# expired ones are removed: checking all of them for each new tile costs more than it frees.
# The field ~ has the time of the hash's last change.
APPLY_TILES = """
local taken, grown = 0, 0
for i = 4, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  if not held or struct.unpack('<i8', held, 9) < struct.unpack('<i8', ARGV[i + 1], 9) then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    taken = taken + 1
    if not held then grown = grown + 1 end
  end
end
if taken == 0 then return 0 end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], '~', now[1] .. '.' .. now[2])
if ARGV[1] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
local fields = redis.call('HLEN', KEYS[1])
if math.floor(fields / 16) == math.floor((fields - grown) / 16) then return taken end
local keeps, longest = {}, 0
for at = 1, #ARGV[3], 12 do
  local keep = struct.unpack('>i8', ARGV[3], at + 4)
  keeps[string.sub(ARGV[3], at, at + 3)] = keep
  longest = math.max(longest, keep)
end
local newest = tonumber(ARGV[2])
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local keep = keeps[string.sub(field, 1, 4)] or longest
  if field ~= '~' and struct.unpack('>i8', field, 5) <= newest - keep then redis.call('HDEL', KEYS[1], field) end
end
return taken
"""

# KEYS[1]  the hash of offsets of a group: partition → next offset
# ARGV     partition, next offset, '1' if the partition is being read from its start
#
# An offset is only moved if it exists: a Redis that came back empty has none, and must be filled again.
COMMIT_OFFSET = """
if ARGV[3] == '1' or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  return 1
end
return 0
"""
