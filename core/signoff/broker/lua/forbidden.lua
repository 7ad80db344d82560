-- Put before each script that calls `forbidden`.
-- Return an error if the Redis user may not use one of these commands, or may not read and write one of
-- these keys; else nil. Redis refuses a command in the middle of a script, and keeps what the script has
-- written before. So a script with several writes checks first. Redis 6 cannot check this in a script.
local function forbidden(p, commands, keys)
  local may = redis.acl_check_cmd
  if not may then return end
  local refused
  for _, command in ipairs(commands) do
    if not may(command, p) then refused = command end
  end
  for _, key in ipairs(keys) do
    -- With GET it needs the permission to read, too.
    if not may('SET', p .. key, '', 'GET') then refused = 'the key ' .. p .. key end
  end
  return refused and redis.error_reply('NOPERM this user may not use ' .. refused)
end

