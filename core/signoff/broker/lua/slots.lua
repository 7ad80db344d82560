-- Take a slot of every given limit, or of none; if a limit has no free slot, join its queue.
-- KEYS[1] prefix   ARGV[1] now in ms, or 0   ARGV[2] who   ARGV[3] deadline in ms
-- ARGV for each limit: its key, ms from slot to slot, how many slots may be saved up
-- Returns 0, or the ms until its slot is free, after those with an earlier deadline.
-- A limit is stored as the moment when all taken slots are paid off (GCRA). KEY:line orders the queue
-- by deadline, and KEY:back by when each one is expected to try again.
local p = KEYS[1]
local now, who, deadline = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
-- Longer than the timers need to make somebody try again.
local late = 30000

local function leave(key)
  redis.call('ZREM', p .. key .. ':line', who)
  redis.call('ZREM', p .. key .. ':back', who)
end

local blocked, wait = nil, 0
for i = 4, #ARGV, 3 do
  local key, every, most = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  leave(key)
  local paid = tonumber(redis.call('GET', p .. key) or 0)
  local free = paid - (most - 1) * every
  if not blocked and free > now then
    local line, back = p .. key .. ':line', p .. key .. ':back'
    -- Those that did not try again, for example because of a withdrawn card, leave the queue.
    local gone = redis.call('ZRANGEBYSCORE', back, '-inf', now - late)
    for _, one in ipairs(gone) do
      redis.call('ZREM', line, one)
      redis.call('ZREM', back, one)
    end
    redis.call('ZADD', line, deadline, who)
    blocked = key
    wait = free - now + redis.call('ZRANK', line, who) * every
    redis.call('ZADD', back, now + wait, who)
    redis.call('PEXPIRE', line, wait + 2 * late)
    redis.call('PEXPIRE', back, wait + 2 * late)
  end
end
if blocked then return math.ceil(wait) end

for i = 4, #ARGV, 3 do
  local key, every = ARGV[i], tonumber(ARGV[i + 1])
  local paid = math.max(tonumber(redis.call('GET', p .. key) or 0), now) + every
  redis.call('SET', p .. key, string.format('%.0f', paid), 'PX', paid - now + 1000)
end
return 0
