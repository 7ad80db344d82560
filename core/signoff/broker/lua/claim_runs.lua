-- Lease up to ARGV[3] waiting items of a stage of runs for ARGV[4] ms, each with the session of its
-- run, and read the records that a worker needs to begin.
-- KEYS[1] prefix   ARGV[1] stage   ARGV[2] now in ms, or 0
-- ARGV[5] token; that of the n-th item is "<token>.<n>", so that each item has its own
-- ARGV[6] "1" at the start of a drain   ARGV[7] ms by which items of busy sessions are postponed
-- Returns {items still waiting, postponed items, {seconds, microseconds} of this server, freezes,
--   {id, attempts, body, token, lease key, run, {approval, ...}}, ...}; missing records are nil.
local p, stage = KEYS[1], ARGV[1]
local now, clock = tonumber(ARGV[2]), redis.call('TIME')
if now == 0 then now = clock[1] * 1000 + math.floor(clock[2] / 1000) end
local commands = {'HDEL', 'ZRANGEBYSCORE', 'HGET', 'GET', 'EXISTS', 'HSET', 'ZADD', 'SET', 'ZREM', 'ZCOUNT'}
-- All leases are of one family of keys, so the permission for one of them is that for all.
local refused = forbidden(p, commands, {'bells', 'outbox:' .. stage, 'items:' .. stage, 'lease:'})
if refused then return refused end
-- Reset the bell first, so that work which is added after this claim rings again.
if ARGV[6] == '1' then redis.call('HDEL', p .. 'bells', stage) end
local most, outbox, items = tonumber(ARGV[3]), p .. 'outbox:' .. stage, p .. 'items:' .. stage

-- Return the run of an item: its record, the lease key of its session, and its approvals.
local function look_up(body)
  local fine, what = pcall(cjson.decode, body)
  local record = fine and redis.call('GET', p .. 'run:' .. tostring(what.run))
  if not record then return false, '', {} end
  local app, user, session, ids = string.match(record, '^%d+ %S+ ~4\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n')
  local run = {app = app, user = user, session = session, approvals = {}}
  if app then
    -- A packed run begins with what is read here.
    for id in string.gmatch(ids, '%S+') do run.approvals[#run.approvals + 1] = id end
  else
    local readable, plain = pcall(cjson.decode, string.match(record, '^%d+ %S+ (.*)$') or '')
    if readable then run = plain end
  end
  if not (run.app and run.user and run.session) then return record, '', {} end
  local approvals = {}
  for i, id in ipairs(run.approvals or {}) do approvals[i] = redis.call('GET', p .. 'approval:' .. id) end
  return record, 'lease:' .. run.app .. '\0' .. run.user .. '\0' .. run.session, approvals
end

-- Read more than are taken, so that items of busy sessions do not block the others.
local ids = redis.call('ZRANGEBYSCORE', outbox, '-inf', now, 'LIMIT', 0, most + 100)
-- As text, because Redis formats each number of a command anew.
local ends = string.format('%.0f', now + ARGV[4])
local found, put_off = {0, 0, clock, redis.call('GET', p .. 'freezes')}, 0
for _, id in ipairs(ids) do
  if #found == most + 4 then break end
  local attempts, body = string.match(redis.call('HGET', items, id) or '', '^(%d+) %S+ (.*)$')
  if attempts then
    local run, lease, approvals = look_up(body)
    if lease ~= '' and redis.call('EXISTS', p .. lease) == 1 then
      redis.call('ZADD', outbox, now + ARGV[7], id)
      put_off = put_off + 1
    else
      attempts = attempts + 1
      local token = ARGV[5] .. '.' .. (#found - 3)
      redis.call('HSET', items, id, attempts .. ' ' .. token .. ' ' .. body)
      redis.call('ZADD', outbox, ends, id)
      if lease ~= '' then redis.call('SET', p .. lease, token, 'PX', ARGV[4]) end
      found[#found + 1] = {id, attempts, body, token, lease, run, approvals}
    end
  else
    -- A missing or invalid item must not block the others.
    redis.call('ZREM', outbox, id)
  end
end
found[1] = redis.call('ZCOUNT', outbox, '-inf', now)
found[2] = put_off
return found
