-- Move the first entries of the audit into a block, unless they have changed since they were read.
-- KEYS[1] prefix   ARGV[1] ms for which the entries must have waited   ARGV[2] the block
-- ARGV[3] the link of the last entry   ARGV[4], ... the ids of the entries
-- Returns 1, or 0 if other entries are the first ones now, or the last one is too young.
-- The ids begin with this server's time, also where the ledger has another clock.
local p, count = KEYS[1], #ARGV - 3
local t = redis.call('TIME')
-- As in audit.py.
local function score_of(id)
  local ms, nth = string.match(id, '^(%d+)-(%d+)$')
  return ms * 4096 + math.min(nth, 4095)
end
local rows = redis.call('XRANGE', p .. 'audit', '-', '+', 'COUNT', count + 1)
-- The newest entry stays: its link must be the head.
local after, score = rows[count + 1], score_of(ARGV[#ARGV])
if not after or score_of(after[1]) == score then return 0 end
for i = 1, count do
  if rows[i][1] ~= ARGV[3 + i] then return 0 end
end
local fields, link = rows[count][2], nil
for i = 1, #fields, 2 do
  if fields[i] == 'h' then link = fields[i + 1] end
end
local age = t[1] * 1000 + math.floor(t[2] / 1000) - math.floor(score / 4096)
if link ~= ARGV[3] or age < tonumber(ARGV[1]) then return 0 end
local refused = forbidden(p, {'ZADD', 'INCRBY', 'XTRIM'}, {'audit', 'audit:packed', 'audit:count'})
if refused then return refused end
redis.call('ZADD', p .. 'audit:packed', string.format('%.0f', score), ARGV[2])
redis.call('INCRBY', p .. 'audit:count', count)
redis.call('XTRIM', p .. 'audit', 'MINID', after[1])
return 1
