-- beat
-- Record that a process is alive for so many ms, and forget processes that are not.
-- KEYS[1] prefix   ARGV[1] kind:name   ARGV[2] ms   ARGV[3] now in ms, or 0   ARGV[4] its state
local p = KEYS[1]
local now = tonumber(ARGV[3])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
redis.call('ZADD', p .. 'processes', now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', p .. 'processes', '-inf', now)
redis.call('PEXPIRE', p .. 'processes', ARGV[2])
-- The last release only reads this key.
redis.call('SET', p .. 'alive:' .. ARGV[1], ARGV[4], 'PX', ARGV[2])
return 1
