-- pending
-- Pending approvals by policy: how many, and when the first was opened (microseconds). Nothing is
-- parsed: a policy is found by the order in which the fields of a record are written.
-- KEYS[1] prefix   ARGV[1], ARGV[2] the first and the last place in the index `waiting`
-- Returns {policy, count, opened, policy, count, opened, ...}; "" stands for not routed yet.
local p = KEYS[1]
local ids = redis.call('ZRANGE', p .. 'waiting', ARGV[1], ARGV[2])
if #ids == 0 then return {} end
local keys = {}
for i, id in ipairs(ids) do keys[i] = p .. 'approval:' .. id end
local records = redis.call('MGET', unpack(keys))
local opened = redis.call('ZMSCORE', p .. 'approvals', unpack(ids))
local function policy_in(record)
  -- Plain text: a pattern would take eight times as long. The digest follows the arguments.
  local _, digest = string.find(record, '"digest":"sha256:', 1, true)
  local _, terms = string.find(record, '","terms":{', digest or 1, true)
  local _, first = string.find(record, '"policy":"', terms or #record, true)
  local last = first and string.find(record, '"', first + 1, true)
  return last and string.sub(record, first + 1, last - 1) or ''
end

local counts, oldest = {}, {}
for i, record in ipairs(records) do
  if record then
    -- A packed approval begins with its run and its policy.
    local policy = string.match(record, '^%d+ %S+ ~2\n[^\n]*\n([^\n]*)\n') or policy_in(record)
    counts[policy] = (counts[policy] or 0) + 1
    local at = opened[i] and tonumber(opened[i]) or 0
    if at > 0 and (not oldest[policy] or at < oldest[policy]) then oldest[policy] = at end
  end
end
local found = {}
for policy, count in pairs(counts) do
  found[#found + 1] = policy
  found[#found + 1] = count
  found[#found + 1] = string.format('%.0f', oldest[policy] or 0)
end
return found
