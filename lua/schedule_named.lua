-- Says that a dispatcher at work has these schedules in its configuration file, so that none whose file lacks them removes
-- them; or that one which said so stops.
--
-- KEYS  1 prefix
-- ARGV  1 at work (1) or not any more (0), then names
-- Returns  those that are not there
local at_work = ARGV[1]
if at_work ~= '0' and at_work ~= '1' then return redis.error_reply('ERR schedule_named: at_work name…') end
local missing = {}
for i = 2, #ARGV do
  local key = P .. 'schedule:' .. ARGV[i]
  if call('EXISTS', key) == 1 then
    call('HSET', key, 'named', at_work == '1' and NOW or '0')
  else
    missing[#missing + 1] = ARGV[i]
  end
end
return missing
