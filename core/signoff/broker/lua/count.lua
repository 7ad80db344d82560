-- Increase counters. A counter begins again some time after its first increase.
-- KEYS[1] prefix   ARGV[1] that time in ms   ARGV[2] the increase; 0 only reads   ARGV[3...] keys
-- Returns the counts after the increase.
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
