-- Take a lease key, unless it is held under another token. Taking it again prolongs it.
-- KEYS[1] prefix   ARGV[1] lease key   ARGV[2] token   ARGV[3] ms
-- Returns 1, or 0 if it is held under another token.
local key = KEYS[1] .. ARGV[1]
local holder = redis.call('GET', key)
if holder and holder ~= ARGV[2] then return 0 end
redis.call('SET', key, ARGV[2], 'PX', ARGV[3])
return 1
