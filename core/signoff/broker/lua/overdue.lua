-- Find the stages that have waiting work and need a ring, and when something becomes due next.
-- KEYS[1] prefix   ARGV[1] now in ms, or 0
-- Returns {ms until the next item, bell or approval is due, or -1 if there is none,
--   1 if approvals are due already or else 0, stage to ring, ...}.
local p = KEYS[1]
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local later, ring = math.huge, {}

local function first(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or math.huge
end

for _, stage in ipairs(redis.call('SMEMBERS', p .. 'stages')) do
  local at = first(p .. 'outbox:' .. stage)
  if at <= now then
    -- As in commit.lua: one ring is enough until a worker claims, or the pause is over.
    local bell = redis.call('HGET', p .. 'bells', stage) or '0 0'
    local quiet, rings = string.match(bell, '^(%d+) (%d+)$')
    at = tonumber(quiet)
    if at <= now then
      at = now + math.min(1000 * 2 ^ rings, 60000)
      redis.call('HSET', p .. 'bells', stage, string.format('%.0f %.0f', at, rings + 1))
      ring[#ring + 1] = stage
    end
  end
  later = math.min(later, at)
end
local due = first(p .. 'waiting')
if due > now then later = math.min(later, due) end
local wait = later < math.huge and math.max(math.ceil(later - now), 0) or -1
return {wait, due <= now and 1 or 0, unpack(ring)}
