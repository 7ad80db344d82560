-- Lease up to ARGV[3] waiting items of a stage, for ARGV[4] ms, under the token ARGV[5].
-- KEYS[1] prefix   ARGV[1] stage   ARGV[2] now in ms, or 0   ARGV[6] "1" at the start of a drain
-- Returns {items still waiting, id, attempts, body, id, attempts, body, ...}.
-- An item is stored as "<attempts> <lease token, or -> <body>".
local p, stage = KEYS[1], ARGV[1]
local now = tonumber(ARGV[2])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local commands = {'HDEL', 'ZRANGEBYSCORE', 'HMGET', 'HSET', 'ZADD', 'ZREM', 'ZCOUNT'}
local refused = forbidden(p, commands, {'bells', 'outbox:' .. stage, 'items:' .. stage})
if refused then return refused end
-- Reset the bell first, so that work which is added after this claim rings again.
if ARGV[6] == '1' then redis.call('HDEL', p .. 'bells', stage) end
local ids = redis.call('ZRANGEBYSCORE', p .. 'outbox:' .. stage, '-inf', now, 'LIMIT', 0, ARGV[3])
local found, leased, scores, gone = {0}, {}, {}, {}
-- As text, because Redis formats each number of a command anew.
local ends = string.format('%.0f', now + ARGV[4])
local items = #ids > 0 and redis.call('HMGET', p .. 'items:' .. stage, unpack(ids)) or {}
for n, id in ipairs(ids) do
  local attempts, body = string.match(items[n] or '', '^(%d+) %S+ (.*)$')
  if attempts then
    attempts = attempts + 1
    leased[#leased + 1] = id
    leased[#leased + 1] = attempts .. ' ' .. ARGV[5] .. ' ' .. body
    scores[#scores + 1] = ends
    scores[#scores + 1] = id
    found[#found + 1] = id
    found[#found + 1] = attempts
    found[#found + 1] = body
  else
    -- A missing or invalid item must not block the others.
    gone[#gone + 1] = id
  end
end
if #leased > 0 then
  redis.call('HSET', p .. 'items:' .. stage, unpack(leased))
  redis.call('ZADD', p .. 'outbox:' .. stage, unpack(scores))
end
if #gone > 0 then redis.call('ZREM', p .. 'outbox:' .. stage, unpack(gone)) end
found[1] = redis.call('ZCOUNT', p .. 'outbox:' .. stage, '-inf', now)
return found
