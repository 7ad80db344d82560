-- beat
-- Record that a process is alive for so many ms, and forget processes that are not.
-- KEYS[1] prefix   ARGV[1] kind:name   ARGV[2] ms   ARGV[3] now in ms, or 0   ARGV[4] its state
-- ARGV[5] the pattern of all keys, or "" if this process may not write all of them
-- Returns {by how many ms the clock was set back since the last heartbeat, or 0 for less than five
-- seconds, state, ...}: the states of the living channels processes.
-- All that waits is scored by the earlier clock, and would wait as much longer. So it is moved here.
local p = KEYS[1]
local now = tonumber(ARGV[3])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local function move(back)
  for _, stage in ipairs(redis.call('SMEMBERS', p .. 'stages')) do
    local outbox = p .. 'outbox:' .. stage
    local items = redis.call('ZRANGEBYSCORE', outbox, '(' .. now, '+inf', 'WITHSCORES')
    for i = 1, #items, 2 do
      redis.call('ZADD', outbox, string.format('%.0f', math.max(items[i + 1] - back, now)), items[i])
    end
  end
  -- Deadlines stay, but approvals that were claimed have the score of the claim.
  local claimed = redis.call('ZRANGEBYSCORE', p .. 'waiting', now + back, now + back + 2 * ARGV[2])
  for _, id in ipairs(claimed) do redis.call('ZADD', p .. 'waiting', now, id) end
  redis.call('DEL', p .. 'bells', p .. 'processes')
  -- Requests are indexed in the order of their times, so later ones would be missing.
  redis.call('DEL', p .. 'search:index')
  local cursor = '0'
  repeat
    local page = redis.call('SCAN', cursor, 'MATCH', ARGV[5], 'COUNT', 1000)
    cursor = page[1]
    for _, key in ipairs(page[2]) do
      local kind = string.match(string.sub(key, #p + 1), '^%a+:')
      if kind == 'lease:' or kind == 'tries:' or kind == 'rate:' then
        local left = redis.call('PTTL', key)
        if left >= 0 then redis.call('PEXPIRE', key, math.max(left - back, 1)) end
      elseif string.sub(key, #p + 1, #p + 12) == 'slack:slots:' then
        redis.call('DEL', key)
      end
    end
  until cursor == '0'
end

local back = 0
if ARGV[5] ~= '' then
  local last = redis.call('ZRANGE', p .. 'processes', -1, -1, 'WITHSCORES')[2]
  back = last and last - ARGV[2] - now or 0
  if back < 5000 then back = 0 else move(back) end
end
-- This index does not expire: the clock may be set back while no process is alive.
redis.call('ZADD', p .. 'processes', now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', p .. 'processes', '-inf', now)
-- The last release only reads this key.
redis.call('SET', p .. 'alive:' .. ARGV[1], ARGV[4], 'PX', ARGV[2])
local found = {back}
for _, process in ipairs(redis.call('ZRANGE', p .. 'processes', 0, -1)) do
  if string.sub(process, 1, 9) == 'channels:' then
    found[#found + 1] = redis.call('GET', p .. 'alive:' .. process) or ''
  end
end
return found
