-- Give out no slot of a limit for so many ms, because the other side asked for a pause.
-- KEYS[1] prefix   ARGV[1] now in ms, or 0   ARGV[2] key   ARGV[3] ms from slot to slot
-- ARGV[4] how many slots may be saved up   ARGV[5] for how many ms
local p, key = KEYS[1], ARGV[2]
local now, every, most = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local paid = now + tonumber(ARGV[5]) + (most - 1) * every
if paid > tonumber(redis.call('GET', p .. key) or 0) then
  redis.call('SET', p .. key, string.format('%.0f', paid), 'PX', paid - now + 1000)
end
