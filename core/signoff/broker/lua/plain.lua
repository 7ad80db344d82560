-- Find pending approvals, and their runs, that have waited for some time and are not packed.
-- KEYS[1] prefix   ARGV[1] now in ms, or 0   ARGV[2] ms for which they must have waited
-- ARGV[3], ARGV[4] the first and the last place in the index `waiting`
-- Returns {how many approvals are at these places, key, record, key, record, ...}.
local p, now = KEYS[1], tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local ids = redis.call('ZRANGE', p .. 'waiting', ARGV[3], ARGV[4])
local found = {#ids}
if #ids == 0 then return found end

-- Return a record, or nil if it is packed, or missing.
local function plain(key)
  -- Only the beginning, because Lua hashes every string that it gets.
  if not string.match(redis.call('GETRANGE', p .. key, 0, 63), '^%d+ %S+ {') then return end
  local record = redis.call('GET', p .. key)
  found[#found + 1] = key
  found[#found + 1] = record
  return record
end

local opened = redis.call('ZMSCORE', p .. 'approvals', unpack(ids))
for i, id in ipairs(ids) do
  if opened[i] and tonumber(opened[i]) / 1000 <= now - ARGV[2] then
    local record = plain('approval:' .. id)
    -- A run is packed with the first of its approvals, and seldom changes before the last is answered.
    local run = record and string.match(record, '"origin":{"run":"([^"\\]*)"')
    if run then plain('run:' .. run) end
  end
end
return found
