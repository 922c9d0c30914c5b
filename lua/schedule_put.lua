-- Defines a schedule, new or in place of what its name stood for. While its timing stays as it was, so does the slot
-- that it waits for: an overdue one is not lost. What the configuration file defined, an API call cannot change.
--
-- KEYS  1 prefix
-- ARGV  1 name, 2 definition, 3 payload, 4 revision (new for each change), 5 timing, 6 source (file or api), 7 paused
--       (0 or 1), 8 slot ms, 9 when it fires ms, 10 schedules at most, 11 leave alone what is defined just so (0 or 1)
-- Returns  created, updated, kept (it was just so), file (the file's own), or full (too many)
local name, definition, payload, revision, timing, source, paused = unpack(ARGV, 1, 7)
local slot, at, most = whole(ARGV[8], 0), whole(ARGV[9], 0), whole(ARGV[10], 0)
if #ARGV ~= 11 or not (slot and at and most) or (paused ~= '0' and paused ~= '1') or (source ~= 'file' and source ~= 'api')
    or (ARGV[11] ~= '0' and ARGV[11] ~= '1') then
  return redis.error_reply('ERR schedule_put: name definition payload revision timing source paused slot at most keep')
end
local key = P .. 'schedule:' .. name
local v = call('HMGET', key, 'definition', 'payload', 'timing', 'slot', 'source')
if v[1] and v[5] == 'file' and source == 'api' then return 'file' end
if v[1] and source == 'file' then call('HSET', key, 'named', NOW) end
if v[1] == definition and v[2] == payload and ARGV[11] == '1' then return 'kept' end
if not v[1] and call('ZCARD', P .. 'schedule_names') >= most then return 'full' end
call('HSET', key, 'definition', definition, 'payload', payload, 'revision', revision, 'timing', timing, 'source', source,
  'updated', NOW, 'named', source == 'file' and NOW or '0')
call('HSETNX', key, 'created', NOW)
call('ZADD', P .. 'schedule_names', 0, name)
if paused == '1' then
  call('HSET', key, 'slot', '')
  call('ZREM', P .. 'schedules', name)
elseif v[3] ~= timing or (v[4] or '') == '' then
  call('HSET', key, 'slot', text(slot))
  call('ZADD', P .. 'schedules', at, name)
end
return v[1] and 'updated' or 'created'
