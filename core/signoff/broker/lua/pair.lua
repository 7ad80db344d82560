-- Read an approval, its run and the clock at one moment.
-- KEYS[1] prefix   ARGV[1] id of the approval
-- Returns {approval, run, seconds, microseconds}; what is not there is nil.
local approval = redis.call('GET', KEYS[1] .. 'approval:' .. ARGV[1])
-- We write the origin before everything that comes from others, so the first match is its run.
local id = approval and string.match(approval, '"origin":{"run":"([^"\\]*)"')
local t = redis.call('TIME')
return {approval, id and redis.call('GET', KEYS[1] .. 'run:' .. id) or false, t[1], t[2]}
