-- Read approvals, their runs and the clock at the same moment.
-- KEYS[1] prefix   ARGV ids of the approvals
-- Returns {seconds, microseconds, approval, run, approval, run, ...}; missing records are nil.
local found = redis.call('TIME')
for i, one in ipairs(ARGV) do
  local approval = redis.call('GET', KEYS[1] .. 'approval:' .. one)
  -- A packed approval begins with its run. In others, Signoff writes the origin before any foreign
  -- text, so the first match is the run.
  local run = approval and (string.match(approval, '^%d+ %S+ ~2\n([^\n]*)\n')
    or string.match(approval, '"origin":{"run":"([^"\\]*)"'))
  found[2 * i + 1] = approval
  found[2 * i + 2] = run and redis.call('GET', KEYS[1] .. 'run:' .. run) or false
end
return found
