-- Lease up to ARGV[3] waiting items of a stage, for ARGV[4] ms, under the token ARGV[5].
-- KEYS[1] prefix   ARGV[1] stage   ARGV[2] now in ms, or 0   ARGV[6] "1" at the start of a drain
-- Returns {items still waiting, id, attempts, body, id, attempts, body, ...}.
-- An item is kept as "<attempts> <token of its lease, or -> <body>".
local p, stage = KEYS[1], ARGV[1]
local now = tonumber(ARGV[2])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
-- Before looking: what is put in from here on rings again, so nothing is overlooked.
if ARGV[6] == '1' then redis.call('HDEL', p .. 'bells', stage) end
local ids = redis.call('ZRANGEBYSCORE', p .. 'outbox:' .. stage, '-inf', now, 'LIMIT', 0, ARGV[3])
local found = {0}
for _, id in ipairs(ids) do
  local item = redis.call('HGET', p .. 'items:' .. stage, id)
  local attempts, body = string.match(item or '', '^(%d+) %S+ (.*)$')
  if attempts then
    attempts = attempts + 1
    redis.call('HSET', p .. 'items:' .. stage, id, attempts .. ' ' .. ARGV[5] .. ' ' .. body)
    redis.call('ZADD', p .. 'outbox:' .. stage, now + ARGV[4], id)
    found[#found + 1] = id
    found[#found + 1] = attempts
    found[#found + 1] = body
  else
    -- Gone, or not an item: it must not stand in the way of the others.
    redis.call('ZREM', p .. 'outbox:' .. stage, id)
  end
end
found[1] = redis.call('ZCOUNT', p .. 'outbox:' .. stage, '-inf', now)
return found
