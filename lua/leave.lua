-- A dispatcher says goodbye, so that it is not counted as lost.
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id
-- Returns  OK
if not ARGV[1] then return redis.error_reply('ERR leave: dispatcher') end
call('ZREM', P .. 'dispatchers', ARGV[1])
call('ZREM', P .. 'idle', ARGV[1])
call('ZREM', P .. 'beats', ARGV[1])
call('DEL', P .. 'dispatcher:' .. ARGV[1], P .. 'standby:' .. ARGV[1])
return redis.status_reply('OK')
