-- Add an audit entry to the trail of its run, unless it is there already.
-- KEYS[1] prefix   ARGV[1] run   ARGV[2] stream id
local trails = KEYS[1] .. 'trails'
local trail = redis.call('HGET', trails, ARGV[1])
if not trail then
  redis.call('HSET', trails, ARGV[1], ARGV[2])
elseif not string.find(' ' .. trail .. ' ', ' ' .. ARGV[2] .. ' ', 1, true) then
  redis.call('HSET', trails, ARGV[1], trail .. ' ' .. ARGV[2])
end
