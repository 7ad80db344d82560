-- One atomic commit: every check first, then every write, so that nothing is half done.
-- KEYS[1] prefix   ARGV[1] the change as JSON   ARGV[2] now in ms, or 0 for this server's clock
-- ARGV[3], ... the long texts of the change, which refers to them by number, from 1. Those of records
-- and items are in the form in which they are stored
-- Returns {"ok", {stage, ...}, {number, ...}}: the stages whose bells must be rung, and the numbers,
-- from 1, of the items for which the sender asked for a lease and got none,
-- or {"conflict", record} or {"lease", item} when somebody else was first,
-- or {"late", ""} when the change came too late,
-- or {"frozen", freeze, tool} when a tool that it starts is frozen.
-- A record is stored as "<version> <mark> <data>". The mark is that of the change that wrote it, also
-- where several changes are one commit and a later change builds on this record.
-- An item is stored as "<attempts> <lease token, or -> <body>".
-- Commands are batched, because most of the cost of a command is the call.
local p = KEYS[1]
local change = cjson.decode(ARGV[1])
local now = tonumber(ARGV[2])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local function text(number) return number > 0 and ARGV[2 + number] or '' end

-- Call a command on a key with any number of arguments. Lua can unpack only some thousands at once.
local function each(command, key, arguments)
  for first = 1, #arguments, 1000 do
    redis.call(command, key, unpack(arguments, first, math.min(first + 999, #arguments)))
  end
end

-- Read fields of a hash; a missing field is false.
local function fields(key, names)
  local found = {}
  for first = 1, #names, 1000 do
    local some = redis.call('HMGET', key, unpack(names, first, math.min(first + 999, #names)))
    for n, one in ipairs(some) do found[names[first + n - 1]] = one end
  end
  return found
end

-- Group rows by stage. Also returns the stages in the order in which they appear.
local function by_stage(rows)
  local found, stages = {}, {}
  for _, row in ipairs(rows) do
    if not found[row.stage] then
      found[row.stage] = {rows = {}, ids = {}}
      stages[#stages + 1] = row.stage
    end
    local here = found[row.stage]
    here.rows[#here.rows + 1] = row
    here.ids[#here.ids + 1] = row.id
  end
  return found, stages
end

for number, item in ipairs(change.items) do item.number = number end
local sent, stages = by_stage(change.items)
local acks = by_stage(change.acks)

-- The change was sent again because the first reply was lost: return the same reply.
local function done()
  local unleased = {}
  for stage, here in pairs(sent) do
    local kept = fields(p .. 'items:' .. stage, here.ids)
    for _, i in ipairs(here.rows) do
      if i.token then
        local leased = string.match(kept[i.id] or '', '^%d+ (%S+)') == i.token
        if not leased then unleased[#unleased + 1] = i.number end
        -- If an item is in the change twice, only the first one has the lease.
        kept[i.id] = nil
      end
    end
  end
  return {'ok', stages, unleased}
end

-- A repeated commit is recognised by its mark in a record that it wrote, or by a key of its own if it
-- only deletes.
local leaves_record = false
for _, w in ipairs(change.writes) do leaves_record = leaves_record or w.data > 0 end
local trace = p .. 'done:' .. change.mark
if not leaves_record and redis.call('EXISTS', trace) == 1 then return done() end

-- Return the version and the mark of a record; 0 and '' if there is none.
local function version_and_mark(key)
  -- Only the beginning, because Lua hashes every string that it gets.
  local version, mark = string.match(redis.call('GETRANGE', p .. key, 0, 63), '^(%d+) (%S+)')
  return tonumber(version or 0), mark or ''
end

local conflict
for _, w in ipairs(change.writes) do
  local version, mark = version_and_mark(w.key)
  if mark == (w.mark or change.mark) then return done() end
  -- Not returned yet: a record that a repeated commit deleted is gone, and another one has its mark.
  if version ~= w.was or (w.by and w.by ~= mark) then conflict = conflict or w.key end
end
for _, r in ipairs(change.reads) do
  if version_and_mark(r.key) ~= r.was then conflict = conflict or r.key end
end
if conflict then return {'conflict', conflict} end
for stage, here in pairs(acks) do
  here.kept = fields(p .. 'items:' .. stage, here.ids)
  for _, a in ipairs(here.rows) do
    if string.match(here.kept[a.id] or '', '^%d+ (%S+)') ~= a.token then return {'lease', a.id} end
  end
end
for _, f in ipairs(change.fences) do
  if redis.call('GET', p .. f.key) ~= f.token then return {'lease', f.key} end
end
if change['until'] > 0 and now >= change['until'] then return {'late', ''} end
local starts = change.starts
local freezes = #starts > 0 and redis.call('GET', p .. 'freezes')
for _, f in ipairs(freezes and cjson.decode(string.match(freezes, '^%d+ %S+ (.*)$')) or {}) do
  for _, s in ipairs(starts) do
    local counts = (f.app or s.app) == s.app and (f.tool or s.tool) == s.tool
    for _, id in ipairs(s.despite) do counts = counts and id ~= f.id end
    if counts then return {'frozen', cjson.encode(f), s.tool} end
  end
end

if not leaves_record then redis.call('SET', trace, '1', 'PX', 120000) end
-- What each index gains and loses. If a member occurs several times, the last entry counts.
local gains, losses = {}, {}
for _, w in ipairs(change.writes) do
  local record = text(w.data)
  if w.data == 0 then
    redis.call('DEL', p .. w.key)
  elseif w.ttl > 0 then
    redis.call('SET', p .. w.key, record, 'PX', w.ttl)
  else
    redis.call('SET', p .. w.key, record)
  end
  for _, e in ipairs(w.drop) do
    losses[e[1]] = losses[e[1]] or {}
    losses[e[1]][e[2]] = true
    if gains[e[1]] then gains[e[1]][e[2]] = nil end
  end
  for _, e in ipairs(w.add) do
    gains[e[1]] = gains[e[1]] or {}
    gains[e[1]][e[2]] = e[3]
    if losses[e[1]] then losses[e[1]][e[2]] = nil end
  end
end
for index, members in pairs(losses) do
  local gone = {}
  for member in pairs(members) do gone[#gone + 1] = member end
  each('ZREM', p .. index, gone)
end
for index, members in pairs(gains) do
  local new = {}
  for member, score in pairs(members) do
    new[#new + 1] = score
    new[#new + 1] = member
  end
  each('ZADD', p .. index, new)
end
for stage, here in pairs(acks) do
  local ended, later, back = {}, {}, {}
  for _, a in ipairs(here.rows) do
    if a.after < 0 then
      ended[#ended + 1] = a.id
    else
      local attempts, body = string.match(here.kept[a.id], '^(%d+) %S+ (.*)$')
      -- An item that only waited for its turn has used no attempt.
      if a.free then attempts = string.format('%.0f', math.max(attempts - 1, 0)) end
      back[#back + 1] = a.id
      back[#back + 1] = attempts .. ' - ' .. (a.body and text(a.body) or body)
      later[#later + 1] = now + a.after
      later[#later + 1] = a.id
    end
  end
  each('HDEL', p .. 'items:' .. stage, ended)
  each('ZREM', p .. 'outbox:' .. stage, ended)
  each('HSET', p .. 'items:' .. stage, back)
  each('ZADD', p .. 'outbox:' .. stage, later)
end
for _, f in ipairs(change.fences) do
  if f.free then redis.call('DEL', p .. f.key) end
end

if #change.audit > 0 then
  local link, trails = redis.call('GET', p .. 'audit:head') or '', {}
  for _, e in ipairs(change.audit) do
    link = redis.sha1hex(link .. e.hash)
    local id = redis.call('XADD', p .. 'audit', '*', 'e', text(e.text), 'h', link)
    if e.run ~= '' then
      local trail = trails[e.run] or redis.call('HGET', p .. 'trails', e.run)
      trails[e.run] = trail and trail .. ' ' .. id or id
    end
  end
  local all = {}
  for run, trail in pairs(trails) do
    all[#all + 1] = run
    all[#all + 1] = trail
  end
  each('HSET', p .. 'trails', all)
  redis.call('SET', p .. 'audit:head', link)
end

local rings, unleased = {}, {}
for _, stage in ipairs(stages) do
  local here, outbox, called = sent[stage], p .. 'outbox:' .. stage, false
  local kept, new, scores = fields(p .. 'items:' .. stage, here.ids), {}, {}
  local asks = false
  for _, i in ipairs(here.rows) do asks = asks or i.token end
  -- A leased item may overtake at most one batch of a claim, which is 100 items.
  local behind = asks and redis.call('ZCOUNT', outbox, '-inf', now) >= 100
  for _, i in ipairs(here.rows) do
    local leased = i.token and not behind and not kept[i.id]
    if not kept[i.id] then
      kept[i.id] = true
      new[#new + 1] = i.id
      local item = text(i.body)
      new[#new + 1] = leased and '1 ' .. i.token .. string.sub(item, 4) or item
      scores[#scores + 1] = now + (leased and i.lease or i.after)
      scores[#scores + 1] = i.id
      called = called or (i.after == 0 and not leased)
    end
    if i.token and not leased then unleased[#unleased + 1] = i.number end
  end
  each('HSET', p .. 'items:' .. stage, new)
  each('ZADD', outbox, scores)
  if #new > 0 then redis.call('SADD', p .. 'stages', stage) end
  if called then
    -- One ring is enough until a worker claims. If none does, the pauses grow to a minute.
    local bell = redis.call('HGET', p .. 'bells', stage) or '0 0'
    local quiet, count = string.match(bell, '^(%d+) (%d+)$')
    if tonumber(quiet) <= now then
      quiet = now + math.min(1000 * 2 ^ count, 60000)
      redis.call('HSET', p .. 'bells', stage, string.format('%.0f %.0f', quiet, count + 1))
      rings[#rings + 1] = stage
    end
  end
end
return {'ok', rings, unleased}
