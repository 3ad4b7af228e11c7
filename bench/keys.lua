-- wrk -s keys.lua URL -- ENTITIES BODY: asks with a random card in place of CARD; prints one line of JSON at the end.

local entities, before, after
local head = {["Content-Type"] = "application/json"}

function init(arguments)
  entities = tonumber(arguments[1])
  before, after = arguments[2]:match("^(.*)CARD(.*)$")
  math.randomseed(os.time())
end

function request()
  return wrk.format("POST", wrk.path, head, before .. "c" .. math.random(0, entities - 1) .. after)
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format(
    '\n{"requests": %d, "seconds": %f, "failed": %d, "refused": %d, "p50_ms": %f, "p99_ms": %f}\n',
    summary.requests, summary.duration / 1e6, failed, errors.status,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
