-- Forgets a registered target; its flow stays as it is, and its jobs are the caller's to think of.
--
-- KEYS  1 prefix (control partition)
-- ARGV  1 name
-- Returns  1 if it was there, else 0
local name = ARGV[1]
if #ARGV ~= 1 or name == '' or string.byte(name) == 126 then return redis.error_reply('ERR target_remove: name') end
local key = P .. 'targets'
if call('HDEL', key, name) == 0 then return 0 end
call('HINCRBY', key, '~revision', 1)
return 1
