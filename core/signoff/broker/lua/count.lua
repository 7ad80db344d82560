-- Increase counters. A counter begins again some time after its first increase.
-- KEYS[1] prefix   ARGV[1] that time in ms   ARGV[2] the increase; 0 only reads   ARGV[3...] keys
-- Returns the counts after the increase.
local counts, keys = {}, {unpack(ARGV, 3)}
-- A counter that could not be made to expire would never begin again.
local refused = ARGV[2] ~= '0' and forbidden(KEYS[1], {'INCRBY', 'PEXPIRE'}, keys)
if refused then return refused end
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
