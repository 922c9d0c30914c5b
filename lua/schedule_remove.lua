-- Removes a schedule and its counters; the jobs that it made stay. One of the configuration file is left to the file.
--
-- KEYS  1 prefix
-- ARGV  1 name, 2 whose (api, file, or any), 3 ms within which no dispatcher may have said that its file defines it
-- Returns  removed, file or api (it is that one's own), named (a dispatcher has it in its file), or none (there is no such
--       schedule)
local name, whose, silent = ARGV[1], ARGV[2], whole(ARGV[3], 0)
if not (name and silent) or (whose ~= 'api' and whose ~= 'file' and whose ~= 'any') then
  return redis.error_reply('ERR schedule_remove: name whose silent_ms')
end
local key = P .. 'schedule:' .. name
local source = call('HGET', key, 'source')
if not source then return 'none' end
if whose ~= 'any' and source ~= whose then return source end
if silent > 0 and now_ms - tonumber(call('HGET', key, 'named') or 0) < silent then return 'named' end
call('UNLINK', key)
call('ZREM', P .. 'schedules', name)
call('ZREM', P .. 'schedule_names', name)
call('HDEL', P .. 'stats', 'schedule_fired:' .. name, 'schedule_missed:' .. name, 'schedule_overlapped:' .. name)
return 'removed'
