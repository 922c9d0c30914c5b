-- Takes back jobs whose lease ran out: pending again at their old rank, no attempt spent, marked suspect. A suspect
-- whose lease runs out again has stalled by its own doing; after max_stalls of these it is dead.
--
-- KEYS  1 prefix
-- ARGV  1 at most, 2 max stalls
-- Returns  per job 2: id, the status it has now (pending, retrying, dead, cancelled)
local most, max_stalls = whole(ARGV[1], 0), whole(ARGV[2], 0)
if not (most and max_stalls) then return redis.error_reply('ERR reap: at_most max_stalls') end

local out = {}
local ids = call('ZRANGE', P .. 'leases', '-inf', NOW, 'BYSCORE', 'LIMIT', 0, most)
read_lines(ids)

-- The deadline of one whose work went on elsewhere has passed: a failure like another.
local function end_parked(id, job)
  local delay_ms = unpark(id, job)
  local error = '{"type":"timeout","message":"no word of its end before its deadline"}'
  if not has_flag(job, 'q') and job.attempt < tonumber(job.max) then return retry_later(id, job, delay_ms, error) end
  unspend(job.target, job.key)
  if has_flag(job, 'q') then
    finish(id, job, 'cancelled', '', '', '')
    return 'cancelled'
  end
  finish(id, job, 'dead', 'exhausted', '', error)
  return 'dead'
end

-- Takes one back: the status that it has now.
local function take_back(id, job)
  if has_flag(job, 'w') then return end_parked(id, job) end
  local suspect = has_flag(job, 's')
  local stalls = suspect and tonumber(call('HGET', P .. 'j:' .. id, 'stalls') or 0) + 1 or 0
  unspend(job.target, job.key)
  bump('reclaimed', job.lane, job.target)
  if followed then tell('reclaimed', id, job.lane, job.target, job.attempt) end
  log(id, log_line('reclaimed', job.attempt, of_attempt(job)))
  job.status = 'pending' -- its end, if this is it, is none of an attempt
  job.token = ''
  if has_flag(job, 'q') then
    finish(id, job, 'cancelled', '', '', '')
    return 'cancelled'
  end
  if stalls > 0 then call('HSET', P .. 'j:' .. id, 'stalls', stalls) end
  if stalls > max_stalls then
    finish(id, job, 'dead', 'stalled', '',
      '{"type":"stalled","message":"its dispatcher was lost ' .. (stalls + 1) .. ' times while it ran"}')
    return 'dead'
  end
  job.attempt, job.updated = job.attempt - 1, NOW
  add_flag(job, 's')
  save(id, job)
  make_ready(id, job.lane, job.target, job.key, job.rank, true)
  woken = true
  return 'pending'
end

for i = 1, #ids do
  local job = load(ids[i])
  if job then
    out[#out + 1] = ids[i]
    out[#out + 1] = take_back(ids[i], job)
  end
end
call_many('ZREM', P .. 'leases', ids)
commit()
return out
