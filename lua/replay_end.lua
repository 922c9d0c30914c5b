-- Ends a bulk replay in this partition: stopped, if it has not come to its end by itself; or done, once it has in every
-- one. In the control partition it is under way no more.
--
-- KEYS  1 prefix
-- ARGV  1 replay id, 2 done or stopped
-- Returns  the state that it has in this partition now
local id, state = ARGV[1], ARGV[2]
if state ~= 'done' and state ~= 'stopped' then return redis.error_reply('ERR replay_end: id done|stopped') end

local KEEP_MS = 30 * 86400000
local rk = P .. 'replay:' .. id
local v = call('HMGET', rk, 'state', 'over')
call('ZREM', P .. 'replays', id)
if v[1] ~= 'done' and v[1] ~= 'stopped' then call('HSET', rk, 'state', state, 'updated', NOW) end
if not v[2] then call('HSET', rk, 'over', state) end
call('PEXPIRE', rk, KEEP_MS)
return v[2] or state
