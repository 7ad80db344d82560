-- Return the rows of the search index that have all of these bits.
-- KEYS[1] prefix   ARGV[1] the most rows   ARGV[2] bytes of an id   ARGV[3], ... the bits
-- Returns {the head, the id of a row, ...}, or nil if the index does not help: there is none, there are
-- more rows, a slice is missing, or Redis refuses to write.
local p, most, width = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local head, both = redis.call('GET', p .. 'search:index'), p .. 'search:both'
if not head then return false end
-- What BITOP writes is deleted at once, so neither replicas nor the disk need it. A server that does not
-- know set_repl sends them both commands.
pcall(redis.set_repl, redis.REPL_NONE)

local found, count = {head}, 0
for _, segment in ipairs(cjson.decode(head).segments) do
  local start, slices = p .. 'search:' .. string.format('%.0f', segment.name) .. ':', {}
  for i = 3, #ARGV do slices[i - 2] = start .. ARGV[i] end
  -- Without one of its slices, a segment would seem to have no rows.
  if redis.call('EXISTS', start .. 'ids', unpack(slices)) <= #slices then return false end
  if type(redis.pcall('BITOP', 'AND', both, unpack(slices))) == 'table' then return false end
  count = count + redis.call('BITCOUNT', both)
  if count > most then break end
  local at = redis.call('BITPOS', both, 1)
  while at >= 0 do
    local place = math.floor(at / 8)
    local bits = string.byte(redis.call('GETRANGE', both, place, place))
    for bit = 0, 6 do
      if math.floor(bits / 2 ^ bit) % 2 == 1 then
        local from = (7 * place + bit) * width
        found[#found + 1] = redis.call('GETRANGE', start .. 'ids', from, from + width - 1)
      end
    end
    at = redis.call('BITPOS', both, 1, place + 1)
  end
end
redis.call('DEL', both)
return count <= most and found
