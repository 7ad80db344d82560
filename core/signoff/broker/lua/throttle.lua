-- Count one attempt under several rules. If one of them is used up, count it under none, so that
-- refused attempts use up nothing.
-- KEYS[1] prefix   ARGV for each rule: its key, how many a window has, the window in ms
-- Returns 0, or the ms until the window of the first used-up rule ends.
for i = 1, #ARGV, 3 do
  local key = KEYS[1] .. ARGV[i]
  if tonumber(redis.call('GET', key) or 0) >= tonumber(ARGV[i + 1]) then
    return math.max(redis.call('PTTL', key), 1)
  end
end
for i = 1, #ARGV, 3 do
  local key = KEYS[1] .. ARGV[i]
  redis.call('SET', key, 0, 'NX', 'PX', ARGV[i + 2])
  redis.call('INCR', key)
end
return 0
