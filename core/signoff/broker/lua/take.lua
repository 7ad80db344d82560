-- Take a lease key, unless somebody else holds it; taking it again under one token prolongs it.
-- KEYS[1] prefix   ARGV[1] lease key   ARGV[2] token   ARGV[3] ms   ARGV[4] now in ms, or 0
-- ARGV[5] stage and ARGV[6] item id ("" for none): an item of ours, whose lease is prolonged too
-- Returns 1, 0 when the key is somebody else's, or -1 when the item is.
local p = KEYS[1]
local key = p .. ARGV[1]
local holder = redis.call('GET', key)
if holder and holder ~= ARGV[2] then return 0 end
if ARGV[6] ~= '' then
  local now = tonumber(ARGV[4])
  if now == 0 then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  local item = redis.call('HGET', p .. 'items:' .. ARGV[5], ARGV[6])
  if not item or string.match(item, '^%d+ (%S+)') ~= ARGV[2] then return -1 end
  redis.call('ZADD', p .. 'outbox:' .. ARGV[5], now + ARGV[3], ARGV[6])
end
redis.call('SET', key, ARGV[2], 'PX', ARGV[3])
return 1
