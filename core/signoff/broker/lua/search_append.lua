-- Append a batch of rows to the search index, unless another process has done it.
-- KEYS[1] prefix   ARGV[1] the head as it was read, "" for none   ARGV[2] the new head
-- ARGV[3] segment   ARGV[4] the ids of the rows   ARGV[5], ... the rows' bits, one text for each slice
-- Returns 1, or 0 if the head has changed.
local p, segment = KEYS[1], KEYS[1] .. 'search:' .. ARGV[3] .. ':'
if (redis.call('GET', p .. 'search:index') or '') ~= ARGV[1] then return 0 end
local keys = {'search:index', 'search:' .. ARGV[3] .. ':ids'}
for i = 5, #ARGV do keys[#keys + 1] = 'search:' .. ARGV[3] .. ':' .. (i - 5) end
local refused = forbidden(p, {'APPEND', 'SET'}, keys)
if refused then return refused end
redis.call('APPEND', segment .. 'ids', ARGV[4])
for i = 5, #ARGV do redis.call('APPEND', segment .. (i - 5), ARGV[i]) end
redis.call('SET', p .. 'search:index', ARGV[2])
return 1
