-- Read a session at one moment, or create it: its fields, its events and the shared states.
-- KEYS[1] prefix   ARGV[1] session   ARGV[2] state of the app   ARGV[3] state of the user: hashes
-- ARGV[4] the session that the caller has read before ("" for none), and ARGV[5] how many of its
--   events; only later events are read   ARGV[6] the most events, counted from the last; -1 for all
-- ARGV[7..11] mark, seconds since the epoch, app, user and id to create a missing session, or nothing
-- Returns {} if it does not exist, or {fields, events in all, place of the first, {event, ...},
--   state of the app, state of the user}.
local p = KEYS[1]
local fields, history = redis.call('HGETALL', p .. 'session:' .. ARGV[1]), p .. 'history:' .. ARGV[1]
if #fields == 0 then
  if not ARGV[7] then return {} end
  local keys = {'session:' .. ARGV[1], 'history:' .. ARGV[1], 'listed', 'listed:' .. ARGV[3]}
  local refused = forbidden(p, {'HSET', 'ZADD', 'LLEN', 'LRANGE'}, keys)
  if refused then return refused end
  fields = {'made', ARGV[7], 'at', ARGV[8], 'app', ARGV[9], 'user', ARGV[10], 'id', ARGV[11]}
  redis.call('HSET', p .. 'session:' .. ARGV[1], unpack(fields))
  redis.call('ZADD', p .. 'listed', ARGV[8], ARGV[1])
  redis.call('ZADD', p .. 'listed:' .. ARGV[3], ARGV[8], ARGV[1])
end
local made
for i = 1, #fields, 2 do
  if fields[i] == 'made' then made = fields[i + 1] end
end
local count, first, most = redis.call('LLEN', history), 0, tonumber(ARGV[6])
if made == ARGV[4] then first = math.min(tonumber(ARGV[5]), count) end
if most >= 0 then first = math.max(first, count - most) end
local events = first < count and redis.call('LRANGE', history, first, -1) or {}
local app = redis.call('HGETALL', p .. 'state:' .. ARGV[2])
return {fields, count, first, events, app, redis.call('HGETALL', p .. 'state:' .. ARGV[3])}
