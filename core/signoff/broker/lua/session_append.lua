-- Append an event to a session and apply its state changes, unless another process has written to the
-- session since it was read. If the event is the last one already, the call is sent again because the
-- first reply was lost.
-- KEYS[1] prefix   ARGV[1] session   ARGV[2] state of the app   ARGV[3] state of the user: hashes
-- ARGV[4] "<made> <events>" as it was read, or "" if that is not known
-- ARGV[5] id of the last known event; "" if ARGV[4] is known and the id is not. After a failover,
--   another event may be the last of the same number of events
-- ARGV[6] seconds since the epoch at which it was read; used if ARGV[4] is ""
-- ARGV[7] id of the event   ARGV[8] the event   ARGV[9] its seconds since the epoch
-- ARGV[10..12] how many fields of state follow for the session, the app and the user: name, value, ...
-- Returns {"ok", made, events}, {"gone"} or {"stale"}.
local p, session, history = KEYS[1], KEYS[1] .. 'session:' .. ARGV[1], KEYS[1] .. 'history:' .. ARGV[1]
local made, last, read, app, user = unpack(redis.call('HMGET', session, 'made', 'last', 'at', 'app', 'user'))
if not made then return {'gone'} end
local count = redis.call('LLEN', history)
if ARGV[4] == '' then
  if last == ARGV[7] then return {'ok', made, count} end
  if tonumber(read) > tonumber(ARGV[6]) and (last or '') ~= ARGV[5] then return {'stale'} end
elseif ARGV[4] ~= made .. ' ' .. count or (ARGV[5] ~= '' and ARGV[5] ~= last) then
  if last == ARGV[7] and ARGV[4] == made .. ' ' .. (count - 1) then return {'ok', made, count} end
  return {'stale'}
end
local keys = {'session:' .. ARGV[1], 'history:' .. ARGV[1], 'listed', 'listed:' .. ARGV[3]}
for i = 2, 3 do
  if ARGV[9 + i] ~= '0' then keys[#keys + 1] = 'state:' .. ARGV[i] end
end
local refused = forbidden(p, {'RPUSH', 'HSET', 'ZADD'}, keys)
if refused then return refused end
local at = 13
local function set(key, fields)
  for i = 1, tonumber(fields) do
    redis.call('HSET', key, ARGV[at], ARGV[at + 1])
    at = at + 2
  end
end
count = redis.call('RPUSH', history, ARGV[8])
redis.call('HSET', session, 'last', ARGV[7], 'at', ARGV[9])
set(session, ARGV[10])
set(p .. 'state:' .. ARGV[2], ARGV[11])
set(p .. 'state:' .. ARGV[3], ARGV[12])
if ARGV[11] ~= '0' then redis.call('HSET', p .. 'state:' .. ARGV[2], 'app', app, 'user', '') end
if ARGV[12] ~= '0' then redis.call('HSET', p .. 'state:' .. ARGV[3], 'app', app, 'user', user) end
redis.call('ZADD', p .. 'listed', ARGV[9], ARGV[1])
redis.call('ZADD', p .. 'listed:' .. ARGV[3], ARGV[9], ARGV[1])
return {'ok', made, count}
