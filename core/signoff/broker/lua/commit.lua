-- One atomic commit: every check first, then every write, so that nothing is half done.
-- KEYS[1] prefix   ARGV[1] the change as JSON   ARGV[2] now in ms, or 0 for this server's clock
-- Returns {"ok", stage, ...} with the stages whose bell must be rung,
-- or {"conflict", record}, {"lease", item} when somebody else was first,
-- or {"late", ""} when the moment until which it counts has passed,
-- or {"frozen", freeze} when a tool that it starts is frozen.
-- A record is kept as "<version> <mark of the commit that wrote it> <data>".
local p = KEYS[1]
local change = cjson.decode(ARGV[1])
local now = tonumber(ARGV[2])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Sent again because its answer, with the rings, was lost on the way: the rings once more.
local function done()
  local rings, seen = {'ok'}, {}
  for _, i in ipairs(change.items) do
    if not seen[i.stage] then rings[#rings + 1] = i.stage end
    seen[i.stage] = true
  end
  return rings
end

-- A commit is known again by its mark in what it wrote, or by a key where it leaves no record.
local leaves_record = false
for _, w in ipairs(change.writes) do leaves_record = leaves_record or w.data ~= '' end
local trace = p .. 'done:' .. change.mark
if not leaves_record and redis.call('EXISTS', trace) == 1 then return done() end

for _, w in ipairs(change.writes) do
  local current = redis.call('GET', p .. w.key)
  local version, mark = 0, ''
  if current then
    version, mark = string.match(current, '^(%d+) (%S+)')
    version = tonumber(version)
  end
  if mark == change.mark then return done() end
  if version ~= w.was or (w.by and w.by ~= mark) then return {'conflict', w.key} end
end
for _, a in ipairs(change.acks) do
  local item = redis.call('HGET', p .. 'items:' .. a.stage, a.id)
  if not item or string.match(item, '^%d+ (%S+)') ~= a.token then return {'lease', a.id} end
end
for _, f in ipairs(change.fences) do
  if redis.call('GET', p .. f.key) ~= f.token then return {'lease', f.key} end
end
if change['until'] > 0 and now >= change['until'] then return {'late', ''} end
-- A process of the last release sends no starts.
local starts = change.starts or {}
local freezes = #starts > 0 and redis.call('GET', p .. 'freezes')
for _, f in ipairs(freezes and cjson.decode(string.match(freezes, '^%d+ %S+ (.*)$')) or {}) do
  for _, s in ipairs(starts) do
    local counts = (f.app or s.app) == s.app and (f.tool or s.tool) == s.tool
    for _, id in ipairs(s.despite) do counts = counts and id ~= f.id end
    if counts then return {'frozen', cjson.encode(f), s.tool} end
  end
end

if not leaves_record then redis.call('SET', trace, '1', 'PX', 120000) end
for _, w in ipairs(change.writes) do
  local record = (w.was + 1) .. ' ' .. change.mark .. ' ' .. w.data
  if w.data == '' then
    redis.call('DEL', p .. w.key)
  elseif w.ttl > 0 then
    redis.call('SET', p .. w.key, record, 'PX', w.ttl)
  else
    redis.call('SET', p .. w.key, record)
  end
  for _, e in ipairs(w.drop) do redis.call('ZREM', p .. e[1], e[2]) end
  for _, e in ipairs(w.add) do redis.call('ZADD', p .. e[1], e[3], e[2]) end
end
for _, a in ipairs(change.acks) do
  if a.after < 0 then
    redis.call('HDEL', p .. 'items:' .. a.stage, a.id)
    redis.call('ZREM', p .. 'outbox:' .. a.stage, a.id)
  else
    local item = redis.call('HGET', p .. 'items:' .. a.stage, a.id)
    if item then
      local attempts, body = string.match(item, '^(%d+) %S+ (.*)$')
      -- What only waited for its turn was no attempt.
      if a.free then attempts = string.format('%.0f', math.max(attempts - 1, 0)) end
      redis.call('HSET', p .. 'items:' .. a.stage, a.id, attempts .. ' - ' .. (a.body or body))
      redis.call('ZADD', p .. 'outbox:' .. a.stage, now + a.after, a.id)
    end
  end
end
for _, f in ipairs(change.fences) do
  if f.free then redis.call('DEL', p .. f.key) end
end

if #change.audit > 0 then
  local link = redis.call('GET', p .. 'audit:head') or ''
  for _, e in ipairs(change.audit) do
    link = redis.sha1hex(link .. e.hash)
    local id = redis.call('XADD', p .. 'audit', '*', 'e', e.text, 'h', link)
    if e.run ~= '' then
      local trail = redis.call('HGET', p .. 'trails', e.run)
      redis.call('HSET', p .. 'trails', e.run, trail and trail .. ' ' .. id or id)
    end
  end
  redis.call('SET', p .. 'audit:head', link)
end

local ring = {'ok'}
for _, i in ipairs(change.items) do
  if redis.call('HSETNX', p .. 'items:' .. i.stage, i.id, '0 - ' .. i.body) == 1 then
    redis.call('ZADD', p .. 'outbox:' .. i.stage, now + i.after, i.id)
    redis.call('SADD', p .. 'stages', i.stage)
    if i.after == 0 then
      -- One ring is enough until somebody comes; if nobody does, the pauses grow to a minute.
      local bell = redis.call('HGET', p .. 'bells', i.stage) or '0 0'
      local quiet, rings = string.match(bell, '^(%d+) (%d+)$')
      if tonumber(quiet) <= now then
        quiet = now + math.min(1000 * 2 ^ rings, 60000)
        redis.call('HSET', p .. 'bells', i.stage, string.format('%.0f %.0f', quiet, rings + 1))
        ring[#ring + 1] = i.stage
      end
    end
  end
end
return ring
