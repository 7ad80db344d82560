-- Remove archived runs: their records, index entries and audit entries. A run is only removed if it is
-- unchanged since it was archived and no work about it is waiting.
-- KEYS[1] prefix   ARGV[1] the runs as JSON:
--   {run, trail, records = {{key, "<version> <mark>"}, ...}, drop = {{index, member}, ...}}
-- Returns for each run 1 if it is removed, now or before; 0 if it has changed; -1 if work is waiting.
local p, runs = KEYS[1], cjson.decode(ARGV[1])

local owner, busy = {}, {}
for i, run in ipairs(runs) do
  for _, r in ipairs(run.records) do owner[string.match(r[1], ':(.*)$')] = i end
end
for _, stage in ipairs(redis.call('SMEMBERS', p .. 'stages')) do
  for _, item in ipairs(redis.call('HVALS', p .. 'items:' .. stage)) do
    for name in string.gmatch(item, '"([%w._:-]+)"') do
      if owner[name] then busy[owner[name]] = true end
    end
  end
end

local function unchanged(run)
  if (redis.call('HGET', p .. 'trails', run.run) or '') ~= run.trail then return false end
  for _, r in ipairs(run.records) do
    if redis.call('GETRANGE', p .. r[1], 0, #r[2]) ~= r[2] .. ' ' then return false end
  end
  return true
end

local keys = {'audit', 'trails'}
for _, run in ipairs(runs) do
  for _, r in ipairs(run.records) do keys[#keys + 1] = r[1] end
  for _, e in ipairs(run.drop) do keys[#keys + 1] = e[1] end
end
local commands = {'EXISTS', 'HGET', 'GETRANGE', 'DEL', 'ZREM', 'XDEL', 'HDEL'}
local refused = forbidden(p, commands, keys)
if refused then return refused end

local done = {}
for i, run in ipairs(runs) do
  if redis.call('EXISTS', p .. 'run:' .. run.run) == 0 then
    done[i] = 1
  elseif busy[i] then
    done[i] = -1
  elseif not unchanged(run) then
    done[i] = 0
  else
    for _, r in ipairs(run.records) do redis.call('DEL', p .. r[1]) end
    for _, e in ipairs(run.drop) do redis.call('ZREM', p .. e[1], e[2]) end
    for id in string.gmatch(run.trail, '%S+') do redis.call('XDEL', p .. 'audit', id) end
    redis.call('HDEL', p .. 'trails', run.run)
    done[i] = 1
  end
end
return done
