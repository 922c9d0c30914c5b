-- A sign of life of whoever goes on with a job elsewhere, by its token: its deadline begins anew.
--
-- KEYS  1 prefix
-- ARGV  1 id, 2 token, 3 progress (JSON, '': as it was)
-- Returns  its deadline in ms; 0 if the token does not hold the job, or no longer
local id, token, progress = ARGV[1], ARGV[2], ARGV[3]
if #ARGV ~= 3 or id == '' or token == '' then return redis.error_reply('ERR heartbeat: id token progress') end
local job = line_of(id) and load(id)
if not job or not is_held(id, token) or not has_flag(job, 'w') then return 0 end
local within = tonumber(match(call('HGET', P .. 'j:' .. id, 'parked') or '', '^%d+') or 0)
call('ZADD', P .. 'leases', now_ms + within, id)
if progress ~= '' then call('HSET', P .. 'j:' .. id, 'progress', progress) end
return now_ms + within
