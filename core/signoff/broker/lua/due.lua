-- Claim up to ARGV[2] due approvals. They are due again after ARGV[3] ms, unless a commit moves or
-- removes them, so a process that dies with a batch loses nothing.
-- KEYS[1] prefix   ARGV[1] now in ms, or 0
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local key = KEYS[1] .. 'waiting'
local ids = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do redis.call('ZADD', key, now + ARGV[3], id) end
return ids
