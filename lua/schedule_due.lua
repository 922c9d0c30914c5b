-- The schedules whose slot is due, the longest overdue first, and the time, which is the only clock that slots go by.
--
-- KEYS  1 prefix
-- ARGV  1 at most
-- Returns  1 now ms, 2 ms until the next one after these is due (-1: none waits), then per schedule 5: name, revision,
--       slot ms, definition, payload
local most = whole(ARGV[1], 1)
if not most then return redis.error_reply('ERR schedule_due: at_most') end
local names = call('ZRANGE', P .. 'schedules', '-inf', NOW, 'BYSCORE', 'LIMIT', 0, most)
local later = call('ZRANGE', P .. 'schedules', #names, #names, 'WITHSCORES')
local out = { now_ms, later[2] and math.max(0, tonumber(later[2]) - now_ms) or -1 }
for i = 1, #names do
  local v = call('HMGET', P .. 'schedule:' .. names[i], 'revision', 'slot', 'definition', 'payload')
  out[#out + 1] = names[i]
  for at = 1, 4 do out[#out + 1] = v[at] end
end
return out
