-- Count up, within a span that begins with the first one.
-- KEYS[1] prefix   ARGV[1] the span in ms   ARGV[2] how many come: 0 only looks   ARGV[3...] keys
-- Returns the counts, those that come included.
local counts = {}
for i = 3, #ARGV do
  local key = KEYS[1] .. ARGV[i]
  if ARGV[2] == '0' then
    counts[#counts + 1] = tonumber(redis.call('GET', key) or 0)
  else
    local count = redis.call('INCRBY', key, ARGV[2])
    if count == tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[1]) end
    counts[#counts + 1] = count
  end
end
return counts
