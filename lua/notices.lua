-- Says which target is told of targets that were disabled or have recovered.
--
-- KEYS  1 prefix
-- ARGV  1 target ('': nobody is), 2 its lane, 3 max attempts, 4 its partition, as ids end ('': any)
-- Returns  OK
local target, lane, most, place = ARGV[1], ARGV[2], whole(ARGV[3], 1), ARGV[4]
if #ARGV ~= 4 or not most or not find(place, '^%x*$') then
  return redis.error_reply('ERR notices: target lane max_attempts place')
end
if target == '' then
  call('HDEL', P .. 'conf', 'notices')
else
  call('HSET', P .. 'conf', 'notices', target .. '|' .. lane .. '|' .. text(most) .. '|' .. place)
end
return redis.status_reply('OK')
