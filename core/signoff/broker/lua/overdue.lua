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
    -- As in commit.lua: one ring is enough until somebody comes, or the pause is over.
    local bell = redis.call('HGET', p .. 'bells', stage) or '0 0'
    local quiet, rings = string.match(bell, '^(%d+) (%d+)$')
    if tonumber(quiet) <= now then
      quiet = now + math.min(1000 * 2 ^ rings, 60000)
      redis.call('HSET', p .. 'bells', stage, string.format('%.0f %.0f', quiet, rings + 1))
      ring[#ring + 1] = stage
    end
  end
end
return ring
