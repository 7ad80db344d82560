-- Read all keys at the same moment.
-- KEYS[1] prefix   ARGV[1] the pattern of all keys
-- ARGV[2] the stream id after which the audit is read; the caller has read the entries before it
-- Returns {ms since the epoch, {key, type, ms to live or -1, contents}, ...}; the contents are the
-- text, a flat list, or for a stream {last id, entries}.
local t = redis.call('TIME')
local found, cursor, seen = {t[1] * 1000 + math.floor(t[2] / 1000)}, '0', {}
local read = {
  string = function(key) return redis.call('GET', key) end,
  hash = function(key) return redis.call('HGETALL', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key)
    local info, last = redis.call('XINFO', 'STREAM', key), '0-0'
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then last = info[i + 1] end
    end
    local from = key == KEYS[1] .. 'audit' and '(' .. ARGV[2] or '-'
    return {last, redis.call('XRANGE', key, from, '+')}
  end,
}
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local kind = redis.call('TYPE', key).ok
    local ttl = redis.call('PTTL', key)
    if not seen[key] and ttl ~= -2 then
      seen[key] = true
      if not read[kind] then return redis.error_reply(key .. ' is a ' .. kind) end
      found[#found + 1] = {key, kind, ttl, read[kind](key)}
    end
  end
until cursor == '0'
return found
