-- Members and scores of an index, from behind a place on, in the order of the scores.
-- KEYS[1] prefix   ARGV[1] index   ARGV[2] the most   ARGV[3] and ARGV[4] score and member of the place
-- ARGV[5] 'up' for the lowest score first, 'down' for the highest
-- ARGV[6] another index: only what is there as well, and its scores count; '' for none
-- ARGV[3] is "" for the beginning. Returns {member, score, member, score, ...}.
local key, most, found = KEYS[1] .. ARGV[1], tonumber(ARGV[2]), {}
local up = ARGV[5] == 'up'

-- As the index orders equal scores: by bytes, where Lua's own < goes by the server's locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    if a:byte(i) ~= b:byte(i) then return a:byte(i) < b:byte(i) end
  end
  return #a < #b
end

local function behind(member)
  if up then return less(ARGV[4], member) end
  return less(member, ARGV[4])
end

if ARGV[6] ~= '' then
  local both = redis.call('ZINTER', 2, key, KEYS[1] .. ARGV[6], 'WEIGHTS', 0, 1, 'WITHSCORES')
  local place, begun = tonumber(ARGV[3]), ARGV[3] == ''
  local from, to, step = #both - 1, 1, -2
  if up then from, to, step = 1, #both - 1, 2 end
  for i = from, to, step do
    if not begun then
      local score = tonumber(both[i + 1])
      if score == place then begun = behind(both[i]) else begun = (score > place) == up end
    end
    if begun then
      found[#found + 1] = both[i]
      found[#found + 1] = both[i + 1]
      if #found == 2 * most then break end
    end
  end
  return found
end

local edge = up and '-inf' or '+inf'
local function range(from, to, ...)
  if up then return redis.call('ZRANGE', key, from, to, 'BYSCORE', ...) end
  return redis.call('ZRANGE', key, from, to, 'BYSCORE', 'REV', ...)
end

if ARGV[3] ~= '' then
  edge = '(' .. ARGV[3]
  for _, member in ipairs(range(ARGV[3], ARGV[3])) do
    if behind(member) and #found < 2 * most then
      found[#found + 1] = member
      found[#found + 1] = ARGV[3]
    end
  end
end
local left = most - #found / 2
if left > 0 then
  for _, one in ipairs(range(edge, up and '+inf' or '-inf', 'LIMIT', 0, left, 'WITHSCORES')) do
    found[#found + 1] = one
  end
end
return found
