-- Prolong leases that are still held: items of a stage, or plain lease keys.
-- KEYS[1] prefix   ARGV[1] ms   ARGV[2] token   ARGV[3] now in ms, or 0
-- ARGV[4] stage and ARGV[5] item id ("" for none)   ARGV[6...] lease keys
-- Returns 1, or 0 if one of them is no longer held under this token.
local p = KEYS[1]
local now = tonumber(ARGV[3])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if ARGV[5] ~= '' then
  local item = redis.call('HGET', p .. 'items:' .. ARGV[4], ARGV[5])
  if not item or string.match(item, '^%d+ (%S+)') ~= ARGV[2] then return 0 end
end
for i = 6, #ARGV do
  if redis.call('GET', p .. ARGV[i]) ~= ARGV[2] then return 0 end
end
if ARGV[5] ~= '' then
  redis.call('ZADD', p .. 'outbox:' .. ARGV[4], now + ARGV[1], ARGV[5])
end
for i = 6, #ARGV do redis.call('PEXPIRE', p .. ARGV[i], ARGV[1]) end
return 1
