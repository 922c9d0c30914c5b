-- Writes as new work does, and so fails where new work would; and says how the work goes on.
--
-- KEYS  1 prefix
-- ARGV  1 ms within which a dispatcher must have shown that its loops turn
-- Returns  1 dispatchers that did, 2 ms that the first ready job has waited (0: none), 3 us that the first due job is late
local window = whole(ARGV[1], 1)
if not window then return redis.error_reply('ERR probe: window_ms') end
call('HSET', P .. 'conf', 'probed', NOW)
return standing(window)
