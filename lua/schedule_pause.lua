-- Pauses a schedule, so that it waits for no slot, or lets one that is paused go on with the slot given.
--
-- KEYS  1 prefix
-- ARGV  1 name, 2 paused (0 or 1), 3 slot ms, 4 when it fires ms
-- Returns  1, or 0 if there is no such schedule
local name, paused = ARGV[1], ARGV[2]
local slot, at = whole(ARGV[3], 0), whole(ARGV[4], 0)
if #ARGV ~= 4 or not (slot and at) or (paused ~= '0' and paused ~= '1') then
  return redis.error_reply('ERR schedule_pause: name paused slot at')
end
local key = P .. 'schedule:' .. name
local waits_for = call('HGET', key, 'slot')
if not waits_for then return 0 end
if paused == '1' then
  call('HSET', key, 'slot', '')
  call('ZREM', P .. 'schedules', name)
elseif waits_for == '' then
  call('HSET', key, 'slot', text(slot))
  call('ZADD', P .. 'schedules', at, name)
end
return 1
