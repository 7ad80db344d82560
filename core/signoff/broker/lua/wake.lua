-- Make the items of these stages that wait for a later moment, and are not leased, due now.
-- KEYS[1] prefix   ARGV[1] now in ms, or 0   ARGV[2...] stages
local p, now = KEYS[1], tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
for i = 2, #ARGV do
  local outbox, items = p .. 'outbox:' .. ARGV[i], p .. 'items:' .. ARGV[i]
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', outbox, '(' .. now, '+inf', 'LIMIT', 0, 10000)) do
    -- An item has no lease if it was never claimed, or was put back.
    if string.match(redis.call('HGET', items, id) or '', '^%d+ %- ') then
      redis.call('ZADD', outbox, now, id)
    end
  end
end
return 0
