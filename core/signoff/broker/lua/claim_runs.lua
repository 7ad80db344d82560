-- Lease up to ARGV[3] waiting items of a stage of runs, each with the session of its run, for
-- ARGV[4] ms, and read the records of the run: all that a worker needs to begin.
-- KEYS[1] prefix   ARGV[1] stage   ARGV[2] now in ms, or 0
-- ARGV[5] token: that of the n-th item is "<token>.<n>", for one session two items are two
-- ARGV[6] "1" at the start of a drain   ARGV[7] ms for which an item of a busy session is put off
-- Returns {items still waiting, items put off,
--   {id, attempts, body, token, lease key, run, {approval, ...}}, ...}; what is not there is nil.
local p, stage = KEYS[1], ARGV[1]
local now = tonumber(ARGV[2])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
-- Before looking: what is put in from here on rings again, so nothing is overlooked.
if ARGV[6] == '1' then redis.call('HDEL', p .. 'bells', stage) end
local most, outbox, items = tonumber(ARGV[3]), p .. 'outbox:' .. stage, p .. 'items:' .. stage

-- The run of an item: its record, the key of its session's lease, and its approvals.
local function look_up(body)
  local fine, what = pcall(cjson.decode, body)
  local record = fine and redis.call('GET', p .. 'run:' .. tostring(what.run))
  if not record then return false, '', {} end
  local readable, run = pcall(cjson.decode, string.match(record, '^%d+ %S+ (.*)$') or '')
  if not readable or not (run.app and run.user and run.session) then return record, '', {} end
  local approvals = {}
  for i, id in ipairs(run.approvals or {}) do approvals[i] = redis.call('GET', p .. 'approval:' .. id) end
  return record, 'lease:' .. run.app .. '\0' .. run.user .. '\0' .. run.session, approvals
end

-- More than will be taken: items of busy sessions must not stand in the way of the others.
local ids = redis.call('ZRANGEBYSCORE', outbox, '-inf', now, 'LIMIT', 0, most + 100)
local found, put_off = {0, 0}, 0
for _, id in ipairs(ids) do
  if #found == most + 2 then break end
  local attempts, body = string.match(redis.call('HGET', items, id) or '', '^(%d+) %S+ (.*)$')
  if attempts then
    local run, lease, approvals = look_up(body)
    if lease ~= '' and redis.call('EXISTS', p .. lease) == 1 then
      redis.call('ZADD', outbox, now + ARGV[7], id)
      put_off = put_off + 1
    else
      attempts = attempts + 1
      local token = ARGV[5] .. '.' .. (#found - 1)
      redis.call('HSET', items, id, attempts .. ' ' .. token .. ' ' .. body)
      redis.call('ZADD', outbox, now + ARGV[4], id)
      if lease ~= '' then redis.call('SET', p .. lease, token, 'PX', ARGV[4]) end
      found[#found + 1] = {id, attempts, body, token, lease, run, approvals}
    end
  else
    -- Gone, or not an item: it must not stand in the way of the others.
    redis.call('ZREM', outbox, id)
  end
end
found[1] = redis.call('ZCOUNT', outbox, '-inf', now)
found[2] = put_off
return found
