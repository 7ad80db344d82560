-- measure
-- Count what waits by the sizes of indexes, which takes the same time for any number.
-- KEYS[1] prefix   ARGV[1] now in ms, or 0   ARGV[2...] the names of queues of people
-- Returns {{pending, approvals, runs, audit entries}, {pending in each queue, ...},
--   stage, items, claimable items, ms since the oldest of these could be claimed, ...}.
local p = KEYS[1]
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local queues = {}
for i = 2, #ARGV do queues[i - 1] = redis.call('ZCARD', p .. 'queue:' .. ARGV[i]) end
local found = {
  {
    redis.call('ZCARD', p .. 'waiting'),
    redis.call('ZCARD', p .. 'approvals'),
    redis.call('ZCARD', p .. 'runs'),
    redis.call('XLEN', p .. 'audit') + tonumber(redis.call('GET', p .. 'audit:count') or 0),
  },
  queues,
}
for _, stage in ipairs(redis.call('SMEMBERS', p .. 'stages')) do
  local outbox = p .. 'outbox:' .. stage
  local first = redis.call('ZRANGE', outbox, 0, 0, 'WITHSCORES')
  found[#found + 1] = stage
  found[#found + 1] = redis.call('ZCARD', outbox)
  found[#found + 1] = redis.call('ZCOUNT', outbox, '-inf', now)
  found[#found + 1] = first[2] and math.max(now - tonumber(first[2]), 0) or 0
end
return found
