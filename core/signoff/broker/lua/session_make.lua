-- Create a session of an agent, unless it exists.
-- KEYS[1] prefix   ARGV[1] session   ARGV[2] state of the app   ARGV[3] state of the user: hashes
-- ARGV[4] mark of this call   ARGV[5] seconds since the epoch   ARGV[6] app   ARGV[7] user   ARGV[8] id
-- ARGV[9..11] how many fields of state follow for the session, the app and the user: name, value, ...
-- Returns {state of the app, state of the user}, or {} if the session exists.
local p, session = KEYS[1], KEYS[1] .. 'session:' .. ARGV[1]
local states = {p .. 'state:' .. ARGV[2], p .. 'state:' .. ARGV[3]}
local made = redis.call('HGET', session, 'made')
-- If the call is sent again because the first reply was lost, its mark shows that it made the session.
if made and made ~= ARGV[4] then return {} end
if not made then
  local keys = {'session:' .. ARGV[1], 'state:' .. ARGV[2], 'state:' .. ARGV[3], 'listed', 'listed:' .. ARGV[3]}
  local refused = forbidden(p, {'HSET', 'HGETALL', 'ZADD'}, keys)
  if refused then return refused end
  local at = 12
  local function set(key, count)
    for i = 1, tonumber(count) do
      redis.call('HSET', key, ARGV[at], ARGV[at + 1])
      at = at + 2
    end
  end
  redis.call('HSET', session, 'made', ARGV[4], 'at', ARGV[5], 'app', ARGV[6], 'user', ARGV[7], 'id', ARGV[8])
  set(session, ARGV[9])
  set(states[1], ARGV[10])
  set(states[2], ARGV[11])
  if ARGV[10] ~= '0' then redis.call('HSET', states[1], 'app', ARGV[6], 'user', '') end
  if ARGV[11] ~= '0' then redis.call('HSET', states[2], 'app', ARGV[6], 'user', ARGV[7]) end
  redis.call('ZADD', p .. 'listed', ARGV[5], ARGV[1])
  redis.call('ZADD', p .. 'listed:' .. ARGV[3], ARGV[5], ARGV[1])
end
return {redis.call('HGETALL', states[1]), redis.call('HGETALL', states[2])}
