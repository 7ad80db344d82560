-- One atomic commit: every check first, then every write, so that nothing is half done.
-- KEYS[1] prefix   ARGV[1] the change as JSON   ARGV[2] now in ms, or 0 for this server's clock
-- ARGV[3], ... the long texts of the change, which refers to them by number, from 1; 0 is no text.
-- Those of records and items are in the form in which they are stored
-- The change is [mark, deadline in ms or 0, writes, reads, items, acks, audit, fences, starts, losses,
-- gains], and each of the last nine is a list of rows. Parsing is a large part of a commit, so fields
-- have no names, and those in parentheses are left out if they are not used:
--   write  key, version before, text, ms until it expires or 0 (, mark of the record or "", mark
--          before or "")
--   read   key, version, its mark or ""
--   item   stage, id, text, ms until it is due (, lease token, ms of the lease)
--   ack    stage, id, lease token, ms until it is due again or -1 (, whether it used no attempt, text)
--   audit  text, SHA-256, run
--   fence  lease key, token, whether to release it
--   start  app, tool, [freeze to ignore, ...]
--   loss   index, member, ...; each index once; losses come before gains
--   gain   index, score, member, ...; each index once
-- Returns {"ok", {stage, ...}, {number, ...}}: the stages whose bells must be rung, and the numbers,
-- from 1, of the items for which the sender asked for a lease and got none,
-- or {"conflict", record} or {"lease", item} when somebody else was first,
-- or {"late", ""} when the change came too late,
-- or {"frozen", freeze, tool} when a tool that it starts is frozen,
-- or an error when the Redis user may not write all of it.
-- A record is stored as "<version> <mark> <data>". The mark is that of the change that wrote it, also
-- where several changes are one commit and a later change builds on this record.
-- An item is stored as "<attempts> <lease token, or -> <body>".
-- Commands are batched, because most of the cost of a command is the call.
local p = KEYS[1]
local own, deadline, writes, reads, items, acked, audit, fences, starts, losses, gains =
  unpack(cjson.decode(ARGV[1]))
local now = tonumber(ARGV[2])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local function text(number) return number > 0 and ARGV[2 + number] or '' end

-- Call a command on a key with any number of arguments, from the first one or another one. Lua can
-- unpack only some thousands at once.
local function each(command, key, arguments, from)
  for first = from or 1, #arguments, 1000 do
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
    local stage, id = unpack(row)
    if not found[stage] then
      found[stage] = {rows = {}, ids = {}}
      stages[#stages + 1] = stage
    end
    local here = found[stage]
    here.rows[#here.rows + 1] = row
    here.ids[#here.ids + 1] = id
  end
  return found, stages
end

for number, item in ipairs(items) do
  if item[5] then item[7] = number end
end
local sent, stages = by_stage(items)
local acks = by_stage(acked)

-- The change was sent again because the first reply was lost: return the same reply.
local function done()
  local unleased = {}
  for stage, here in pairs(sent) do
    local kept = fields(p .. 'items:' .. stage, here.ids)
    for _, i in ipairs(here.rows) do
      local _, id, _, _, token, _, number = unpack(i)
      if token then
        local leased = string.match(kept[id] or '', '^%d+ (%S+)') == token
        if not leased then unleased[#unleased + 1] = number end
        -- If an item is in the change twice, only the first one has the lease.
        kept[id] = nil
      end
    end
  end
  return {'ok', stages, unleased}
end

-- A repeated commit is recognised by its mark in a record that it wrote, or by a key of its own if it
-- only deletes.
local leaves_record = false
for _, w in ipairs(writes) do leaves_record = leaves_record or w[3] > 0 end
local trace = p .. 'done:' .. own
if not leaves_record and redis.call('EXISTS', trace) == 1 then return done() end

-- Return the version and the mark of a record; 0 and '' if there is none.
local function version_and_mark(key)
  -- Only the beginning, because Lua hashes every string that it gets.
  local version, mark = string.match(redis.call('GETRANGE', p .. key, 0, 63), '^(%d+) (%S+)')
  return tonumber(version or 0), mark or ''
end

local conflict
for _, w in ipairs(writes) do
  local key, was, _, _, left, by = unpack(w)
  local version, mark = version_and_mark(key)
  if mark == (left and left ~= '' and left or own) then return done() end
  -- Not returned yet: a record that a repeated commit deleted is gone, and another one has its mark.
  if version ~= was or (by and by ~= '' and by ~= mark) then conflict = conflict or key end
end
for _, r in ipairs(reads) do
  local key, was, by = unpack(r)
  local version, mark = version_and_mark(key)
  if version ~= was or (by ~= '' and by ~= mark) then conflict = conflict or key end
end
if conflict then return {'conflict', conflict} end
for stage, here in pairs(acks) do
  here.kept = fields(p .. 'items:' .. stage, here.ids)
  for _, a in ipairs(here.rows) do
    local _, id, token = unpack(a)
    if string.match(here.kept[id] or '', '^%d+ (%S+)') ~= token then return {'lease', id} end
  end
end
for _, f in ipairs(fences) do
  local key, token = unpack(f)
  if redis.call('GET', p .. key) ~= token then return {'lease', key} end
end
if deadline > 0 and now >= deadline then return {'late', ''} end
local freezes = #starts > 0 and redis.call('GET', p .. 'freezes')
for _, f in ipairs(freezes and cjson.decode(string.match(freezes, '^%d+ %S+ (.*)$')) or {}) do
  for _, s in ipairs(starts) do
    local app, tool, despite = unpack(s)
    local counts = (f.app or app) == app and (f.tool or tool) == tool
    for _, id in ipairs(despite) do counts = counts and id ~= f.id end
    if counts then return {'frozen', cjson.encode(f), tool} end
  end
end

local commands = {'DEL', 'SET', 'ZREM', 'ZADD', 'ZCOUNT', 'HDEL', 'HSET', 'HGET', 'HMGET', 'SADD', 'XADD'}
local keys = {'audit', 'audit:head', 'trails', 'stages', 'bells'}
if not leaves_record then keys[#keys + 1] = 'done:' .. own end
for _, rows in ipairs({writes, losses, gains, fences}) do
  for _, row in ipairs(rows) do keys[#keys + 1] = row[1] end
end
for _, some in ipairs({acks, sent}) do
  for stage in pairs(some) do
    keys[#keys + 1] = 'items:' .. stage
    keys[#keys + 1] = 'outbox:' .. stage
  end
end
local refused = forbidden(p, commands, keys)
if refused then return refused end

if not leaves_record then redis.call('SET', trace, '1', 'PX', 120000) end
for _, w in ipairs(writes) do
  local key, _, data, ttl = unpack(w)
  if data == 0 then
    redis.call('DEL', p .. key)
  elseif ttl > 0 then
    redis.call('SET', p .. key, text(data), 'PX', ttl)
  else
    redis.call('SET', p .. key, text(data))
  end
end
for _, row in ipairs(losses) do each('ZREM', p .. row[1], row, 2) end
for _, row in ipairs(gains) do each('ZADD', p .. row[1], row, 2) end
for stage, here in pairs(acks) do
  local ended, later, back = {}, {}, {}
  for _, a in ipairs(here.rows) do
    local _, id, _, after, free, new = unpack(a)
    if after < 0 then
      ended[#ended + 1] = id
    else
      local attempts, body = string.match(here.kept[id], '^(%d+) %S+ (.*)$')
      -- An item that only waited for its turn has used no attempt.
      if free then attempts = string.format('%.0f', math.max(attempts - 1, 0)) end
      back[#back + 1] = id
      back[#back + 1] = attempts .. ' - ' .. (new and text(new) or body)
      later[#later + 1] = now + after
      later[#later + 1] = id
    end
  end
  each('HDEL', p .. 'items:' .. stage, ended)
  each('ZREM', p .. 'outbox:' .. stage, ended)
  each('HSET', p .. 'items:' .. stage, back)
  each('ZADD', p .. 'outbox:' .. stage, later)
end
for _, f in ipairs(fences) do
  local key, _, free = unpack(f)
  if free then redis.call('DEL', p .. key) end
end

if #audit > 0 then
  local link, trails = redis.call('GET', p .. 'audit:head') or '', {}
  for _, e in ipairs(audit) do
    local entry, hash, run = unpack(e)
    link = redis.sha1hex(link .. hash)
    local id = redis.call('XADD', p .. 'audit', '*', 'e', text(entry), 'h', link)
    if run ~= '' then
      local trail = trails[run] or redis.call('HGET', p .. 'trails', run)
      trails[run] = trail and trail .. ' ' .. id or id
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
  for _, i in ipairs(here.rows) do asks = asks or i[5] end
  -- A leased item may overtake at most one batch of a claim, which is 100 items.
  local behind = asks and redis.call('ZCOUNT', outbox, '-inf', now) >= 100
  for _, i in ipairs(here.rows) do
    local _, id, body, after, token, lease, number = unpack(i)
    local leased = token and not behind and not kept[id]
    if not kept[id] then
      kept[id] = true
      new[#new + 1] = id
      new[#new + 1] = leased and '1 ' .. token .. string.sub(text(body), 4) or text(body)
      scores[#scores + 1] = now + (leased and lease or after)
      scores[#scores + 1] = id
      called = called or (after == 0 and not leased)
    end
    if token and not leased then unleased[#unleased + 1] = number end
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
