-- Writes down a bulk replay, for dispatchers to carry on. Repeating it changes nothing.
--
-- KEYS  1 prefix (of the control partition)
-- ARGV  1 replay id, 2 what is asked for (JSON), 3 replays under way at most
-- Returns  when it began in ms, or 0: as many are under way already
local id, order, most = ARGV[1], ARGV[2], whole(ARGV[3], 1)
if not most then return redis.error_reply('ERR replay_start: id order at_most') end
local rk = P .. 'replay:' .. id
local began = call('HGET', rk, 'began')
if began then return tonumber(began) end
if call('ZCARD', P .. 'replays') >= most then return 0 end
call('HSET', rk, 'order', order, 'began', NOW, 'state', 'running', 'updated', NOW)
call('ZADD', P .. 'replays', NOW, id)
return now_ms
