-- Copy the stream of the audit, without the bytes of removed entries: Redis frees them only when all
-- entries near them are removed too.
-- KEYS[1] prefix
local key, new = KEYS[1] .. 'audit', KEYS[1] .. 'audit:new'
if redis.call('EXISTS', key) == 0 then return end
local rows, last = redis.call('XRANGE', key, '-', '+'), nil
local info = redis.call('XINFO', 'STREAM', key)
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then last = info[i + 1] end
end
-- The original stays until the copy is complete, in case of an error.
redis.call('DEL', new)
for _, row in ipairs(rows) do redis.call('XADD', new, row[1], unpack(row[2])) end
if #rows == 0 then
  redis.call('XADD', new, last, 'e', '')
  redis.call('XDEL', new, last)
end
redis.call('XSETID', new, last)
redis.call('RENAME', new, key)
