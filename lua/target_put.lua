-- Registers a target, or replaces what was registered under its name; its limits are flow_control's.
--
-- KEYS  1 prefix (control partition)
-- ARGV  1 name, 2 its table (JSON), 3 targets at most
-- Returns  created, updated, or full (too many)
local name, definition, most = ARGV[1], ARGV[2], whole(ARGV[3], 1)
if #ARGV ~= 3 or name == '' or definition == '' or not most then
  return redis.error_reply('ERR target_put: name definition most')
end
local key = P .. 'targets'
local was = call('HGET', key, name)
if not was and call('HLEN', key) > most then return 'full' end
call('HSET', key, name, NOW .. ' ' .. (was and string.match(was, '^%d+ (%d+) ') or NOW) .. ' ' .. definition)
call('HINCRBY', key, '~revision', 1)
return was and 'updated' or 'created'
