-- Replace records by their packed forms, unless they have changed since they were read.
-- KEYS[1] prefix   ARGV for each record: its key, "<version> <mark> ", and the packed data
-- Returns how many were replaced.
local p, keys, count = KEYS[1], {}, 0
for i = 1, #ARGV, 3 do keys[#keys + 1] = ARGV[i] end
local refused = forbidden(p, {'GETRANGE', 'SET'}, keys)
if refused then return refused end
for i = 1, #ARGV, 3 do
  local key, start = p .. ARGV[i], ARGV[i + 1]
  -- The mark is that of one commit, so the version and the mark are those of one text.
  if redis.call('GETRANGE', key, 0, #start) == start .. '{' then
    redis.call('SET', key, start .. ARGV[i + 2], 'KEEPTTL')
    count = count + 1
  end
end
return count
