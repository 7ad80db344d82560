-- Release a lease key, if it is still held under this token.
-- KEYS[1] prefix   ARGV[1] lease key   ARGV[2] token
if redis.call('GET', KEYS[1] .. ARGV[1]) == ARGV[2] then
  return redis.call('DEL', KEYS[1] .. ARGV[1])
end
return 0
