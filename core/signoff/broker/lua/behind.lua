-- Return members and scores of an index after a given place, ordered by score.
-- KEYS[1] prefix   ARGV[1] index   ARGV[2] the most   ARGV[3] and ARGV[4] score and member of the place
-- ARGV[5] 'up' for the lowest score first, 'down' for the highest
-- ARGV[6] another index: only members of both are returned, with the scores of this one; '' for none
-- ARGV[3] is "" to start at the beginning. Returns {member, score, member, score, ...}.
local key, most, up = KEYS[1] .. ARGV[1], tonumber(ARGV[2]), ARGV[5] == 'up'
local CHUNK = 200

-- Compare by bytes, as the index orders equal scores; Lua's own < depends on the server's locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    if a:byte(i) ~= b:byte(i) then return a:byte(i) < b:byte(i) end
  end
  return #a < #b
end

local function behind(member, place)
  if up then return less(place, member) end
  return less(member, place)
end

local function zrange(index, from, to, ...)
  if up then return redis.call('ZRANGE', index, from, to, ...) end
  return redis.call('ZRANGE', index, from, to, 'REV', ...)
end

-- Return up to `left` members with their scores after a place; score "" is the beginning.
local function read(index, score, member, left)
  if score == '' then return zrange(index, 0, left - 1, 'WITHSCORES') end
  local now = redis.call('ZSCORE', index, member)
  if now and tonumber(now) == tonumber(score) then
    local rank = redis.call(up and 'ZRANK' or 'ZREVRANK', index, member)
    return zrange(index, rank + 1, rank + left, 'WITHSCORES')
  end
  -- The member is no longer there: continue among the members of the same score.
  local found = {}
  for _, one in ipairs(zrange(index, score, score, 'BYSCORE')) do
    if behind(one, member) and #found < 2 * left then
      found[#found + 1] = one
      found[#found + 1] = score
    end
  end
  left = left - #found / 2
  if left > 0 then
    local edge = up and '+inf' or '-inf'
    local rest = zrange(index, '(' .. score, edge, 'BYSCORE', 'LIMIT', 0, left, 'WITHSCORES')
    for _, one in ipairs(rest) do found[#found + 1] = one end
  end
  return found
end

if ARGV[6] == '' then return read(key, ARGV[3], ARGV[4], most) end
local by = KEYS[1] .. ARGV[6]

-- Walk the other index until enough members of both are found; nil if they are too rare.
local function walk(steps)
  local found, score, member = {}, ARGV[3], ARGV[4]
  while steps > 0 do
    local some = read(by, score, member, CHUNK)
    if #some == 0 then return found end
    local members = {}
    for i = 1, #some, 2 do members[#members + 1] = some[i] end
    for i, there in ipairs(redis.call('ZMSCORE', key, unpack(members))) do
      if there then
        found[#found + 1] = some[2 * i - 1]
        found[#found + 1] = some[2 * i]
        if #found == 2 * most then return found end
      end
    end
    if #members < CHUNK then return found end
    member, score, steps = some[#some - 1], some[#some], steps - CHUNK
  end
end

-- Intersect both indexes, whose cost is the size of the smaller one, and drop what is not needed.
local function cross()
  local found, begun = {}, ARGV[3] == ''
  local both = redis.call('ZINTER', 2, key, by, 'WEIGHTS', 0, 1, 'WITHSCORES')
  local place = tonumber(ARGV[3])
  local from, to, step = #both - 1, 1, -2
  if up then from, to, step = 1, #both - 1, 2 end
  for i = from, to, step do
    if not begun then
      local score = tonumber(both[i + 1])
      if score == place then begun = behind(both[i], ARGV[4]) else begun = (score > place) == up end
    end
    if begun then
      found[#found + 1] = both[i]
      found[#found + 1] = both[i + 1]
      if #found == 2 * most then break end
    end
  end
  return found
end

local few, many = redis.call('ZCARD', key), redis.call('ZCARD', by)
if few == 0 then return {} end
-- If they are evenly distributed, a quarter of these steps is enough.
local steps = 4 * most * many / few
return steps < math.min(few, many) and walk(steps) or cross()
