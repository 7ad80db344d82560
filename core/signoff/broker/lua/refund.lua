-- Count one attempt less. What no window is left of stays as it is.
-- KEYS[1] prefix   ARGV keys
for _, name in ipairs(ARGV) do
  local key = KEYS[1] .. name
  if tonumber(redis.call('GET', key) or 0) > 0 then redis.call('DECR', key) end
end
