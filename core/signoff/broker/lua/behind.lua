-- Members and scores of an index, the highest first, from behind a place on.
-- KEYS[1] prefix   ARGV[1] index   ARGV[2] the most   ARGV[3] and ARGV[4] score and member of the place
-- ARGV[3] is "" for the beginning. Returns {member, score, member, score, ...}.
local key, most, found = KEYS[1] .. ARGV[1], tonumber(ARGV[2]), {}

-- As the index orders equal scores: by bytes, where Lua's own < goes by the server's locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    if a:byte(i) ~= b:byte(i) then return a:byte(i) < b:byte(i) end
  end
  return #a < #b
end

local top = '+inf'
if ARGV[3] ~= '' then
  top = '(' .. ARGV[3]
  for _, member in ipairs(redis.call('ZRANGE', key, ARGV[3], ARGV[3], 'BYSCORE', 'REV')) do
    if less(member, ARGV[4]) and #found < 2 * most then
      found[#found + 1] = member
      found[#found + 1] = ARGV[3]
    end
  end
end
local left = most - #found / 2
if left > 0 then
  for _, one in ipairs(redis.call('ZRANGE', key, top, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, left, 'WITHSCORES')) do
    found[#found + 1] = one
  end
end
return found
