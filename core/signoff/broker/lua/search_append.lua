-- Append a batch of rows to the index of searches, unless somebody has done it meanwhile.
-- KEYS[1] prefix   ARGV[1] the head as it was read, "" for none   ARGV[2] the new head
-- ARGV[3] segment   ARGV[4] the ids of the rows   ARGV[5], ... the rows' bits, one text for each slice
-- Returns 1, or 0 where the head is another one.
local p, segment = KEYS[1], KEYS[1] .. 'search:' .. ARGV[3] .. ':'
if (redis.call('GET', p .. 'search:head') or '') ~= ARGV[1] then return 0 end
redis.call('APPEND', segment .. 'ids', ARGV[4])
for i = 5, #ARGV do redis.call('APPEND', segment .. (i - 5), ARGV[i]) end
redis.call('SET', p .. 'search:head', ARGV[2])
return 1
