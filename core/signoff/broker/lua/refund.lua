-- Take back one counted attempt. Keys whose window is over stay unchanged.
-- KEYS[1] prefix   ARGV keys
for _, name in ipairs(ARGV) do
  local key = KEYS[1] .. name
  if tonumber(redis.call('GET', key) or 0) > 0 then redis.call('DECR', key) end
end
