-- Takes back jobs whose lease ran out: pending again at their old rank, no attempt spent, marked suspect. A suspect
-- whose lease runs out again has stalled by its own doing; after max_stalls of these it is dead.
--
-- KEYS  1 prefix
-- ARGV  1 at most, 2 max stalls
-- Returns  per job 2: id, the status it has now (pending, dead, cancelled)
local most, max_stalls = whole(ARGV[1], 0), whole(ARGV[2], 0)
if not (most and max_stalls) then return redis.error_reply('ERR reap: at_most max_stalls') end

local out = {}
local ids = call('ZRANGE', P .. 'leases', '-inf', NOW, 'BYSCORE', 'LIMIT', 0, most)
for i = 1, #ids do
  local id = ids[i]
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'token', 'attempt', 'target', 'lane', 'rank', 'cancel', 'callback', 'suspect', 'stalls',
    'started', 'key')
  if v[2] then
    local job = { token = v[1], attempt = tonumber(v[2]), target = v[3], lane = v[4], callback = v[7], started = v[10] }
    local key = v[11] or ''
    local stalls = tonumber(v[9] or 0) + (v[8] and 1 or 0)
    local status = 'pending'
    call('HDEL', jk, 'token')
    unspend(job.target, key)
    bump('reclaimed', job.lane, job.target)
    if followed then tell('reclaimed', id, job.lane, job.target, job.attempt) end
    log(id, log_line('reclaimed', job.attempt, of_attempt(job)))
    job.started = nil -- said; the job's end, if this is it, is none of an attempt
    if v[6] then
      status = 'cancelled'
      finish(id, job, status, '', '', '')
    elseif stalls > max_stalls then
      status = 'dead'
      call('HSET', jk, 'stalls', stalls)
      finish(id, job, status, 'stalled', '',
        '{"type":"stalled","message":"its dispatcher was lost ' .. (stalls + 1) .. ' times while it ran"}')
    else
      call('HSET', jk, 'status', status, 'attempt', job.attempt - 1, 'suspect', 1, 'stalls', stalls,
        'updated', NOW, 'more', 1)
      make_ready(id, job.lane, job.target, key, v[5], true)
      woken = true
    end
    out[#out + 1] = id
    out[#out + 1] = status
  end
end
call_many('ZREM', P .. 'leases', ids)
commit()
return out
