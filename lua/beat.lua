-- A dispatcher shows that its loops turn: its leases are renewed by a thread, which says nothing of them. Writes even
-- where Redis is full, as all that ends work does.
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id ('': only look), 2 ms within which a dispatcher must have done so
-- Returns  1 dispatchers that did, 2 ms that the first ready job has waited (0: none), 3 us that the first due job is late
local FORGET_MS = 600000
local id, window = ARGV[1], whole(ARGV[2], 1)
if not (id and window) then return redis.error_reply('ERR beat: dispatcher window_ms') end
if id ~= '' then call('ZADD', P .. 'beats', now_ms, id) end
call('ZREMRANGEBYSCORE', P .. 'beats', '-inf', text(now_ms - FORGET_MS))
call('HSET', P .. 'conf', 'probed', NOW)
if call('EXISTS', P .. 'waiters') == 1 then call('HSET', P .. 'conf', 'awaited', 1) else call('HDEL', P .. 'conf', 'awaited') end
drop_gist() -- also since a process of a version that knows of none may have changed conf
return standing(window)
