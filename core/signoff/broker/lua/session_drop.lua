-- Delete a session.
-- KEYS[1] prefix   ARGV[1] session   ARGV[2] state of its user: hashes
-- ARGV[3] seconds since the epoch, or "": delete it only if it was not written since then, no worker
--   runs it, and the ledger has no run of it
-- Returns whether it was deleted.
local p, session = KEYS[1], KEYS[1] .. 'session:' .. ARGV[1]
local at, app, user, id = unpack(redis.call('HMGET', session, 'at', 'app', 'user', 'id'))
if ARGV[3] ~= '' and at then
  local name = app .. '\0' .. user .. '\0' .. id
  if tonumber(at) > tonumber(ARGV[3]) or redis.call('EXISTS', p .. 'lease:' .. name) == 1
    or redis.call('ZLEXCOUNT', p .. 'sessions', '[' .. name .. '\0', '[' .. name .. '\0\255') > 0 then
    return 0
  end
end
local keys = {'session:' .. ARGV[1], 'history:' .. ARGV[1], 'listed', 'listed:' .. ARGV[2]}
local refused = forbidden(p, {'DEL', 'ZREM'}, keys)
if refused then return refused end
redis.call('DEL', session, p .. 'history:' .. ARGV[1])
redis.call('ZREM', p .. 'listed', ARGV[1])
redis.call('ZREM', p .. 'listed:' .. ARGV[2], ARGV[1])
return 1
