-- Which stages have work that waits and no bell that rings? Ring those.
-- KEYS[1] prefix   ARGV[1] now in ms, or 0
local p = KEYS[1]
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local ring = {}
for _, stage in ipairs(redis.call('SMEMBERS', p .. 'stages')) do
  if redis.call('ZCOUNT', p .. 'outbox:' .. stage, '-inf', now) > 0 then
    local patience = math.min(1000 * 2 ^ tonumber(redis.call('GET', p .. 'rings:' .. stage) or 0), 60000)
    if redis.call('SET', p .. 'bell:' .. stage, '1', 'NX', 'PX', patience) then
      redis.call('INCR', p .. 'rings:' .. stage)
      ring[#ring + 1] = stage
    end
  end
end
return ring
