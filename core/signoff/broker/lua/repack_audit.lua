-- Replace a block of the audit by one with fewer entries.
-- KEYS[1] prefix   ARGV[1] the block   ARGV[2] the new one, "" for none   ARGV[3] how many entries fewer
-- Returns 1, or 0 if there is no such block any more.
local p, key = KEYS[1], KEYS[1] .. 'audit:packed'
local refused = forbidden(p, {'ZSCORE', 'ZREM', 'ZADD', 'DECRBY', 'DEL'}, {'audit:packed', 'audit:count'})
if refused then return refused end
local score = redis.call('ZSCORE', key, ARGV[1])
if not score then return 0 end
redis.call('ZREM', key, ARGV[1])
if ARGV[2] ~= '' then redis.call('ZADD', key, score, ARGV[2]) end
if redis.call('DECRBY', p .. 'audit:count', ARGV[3]) < 1 then redis.call('DEL', p .. 'audit:count') end
return 1
