-- Writes attempts' outcomes back, each by its token's holder only. The token decides, not the clock: late work
-- that nobody reclaimed counts. A settle repeated after a lost reply is told that it is a duplicate.
--
-- KEYS  1 prefix
-- ARGV  1 a batch, per job 7: id, token, outcome (succeeded, retry, dead, released, cancelled), delay ms, reason,
--       result (JSON or ''), error (JSON or '')
-- Returns  MessagePack, per job: the status it has now (succeeded, retrying, dead, pending, cancelled), or duplicate, or lost
local OUTCOMES = { succeeded = true, retry = true, dead = true, released = true, cancelled = true }
local jobs = batch(1, 7)
if not jobs then return redis.error_reply('ERR settle takes a batch of 7 values a job') end
for i = 1, #jobs do
  local id, token, outcome, delay_ms, reason, result, error = unpack(jobs[i])
  if type(id) ~= 'string' or type(token) ~= 'string' or token == '' or type(reason) ~= 'string' or type(result) ~= 'string'
      or type(error) ~= 'string' or not OUTCOMES[outcome] or type(delay_ms) ~= 'number' or not whole(delay_ms, 0) then
    return redis.error_reply('ERR settle: no such outcome or delay, or a value of the wrong type, for job ' .. i)
  end
end

local REASONS = { exhausted = 'exhausted', fatal = 'fatal', no_target = 'no_target', gone = 'fatal' }
local out = {}
local unlease = {}

local function retry_later(id, job, delay_ms, error)
  log(id, log_line('retrying', job.attempt, of_attempt(job) .. ',"delay_ms":' .. text(delay_ms) .. (error ~= '' and (',"error":' .. error) or '')))
  job.status, job.previous, job.updated = 'retrying', text(delay_ms), NOW
  save(id, job)
  local t = target_node(job.target)
  unspend(job.target, job.key, t and t.ordered == 1 and id or nil)
  call('ZADD', P .. 'due', now_us + delay_ms * 1000, id)
  bump('retried', job.lane, job.target)
  if followed then tell('retrying', id, job.lane, job.target, job.attempt, text(delay_ms)) end
  return 'retrying'
end

local function release(id, job)
  log(id, log_line('released', job.attempt, of_attempt(job)))
  if followed then tell('released', id, job.lane, job.target, job.attempt) end
  job.status, job.attempt, job.updated = 'pending', job.attempt - 1, NOW
  save(id, job)
  unspend(job.target, job.key)
  make_ready(id, job.lane, job.target, job.key, job.rank, has_flag(job, 's'))
  woken = true
  return 'pending'
end

-- Any end of an attempt; the status that the job has now.
local function settle(id, outcome, delay_ms, reason, result, error)
  local job = load(id)
  if has_flag(job, 'q') and (outcome == 'retry' or outcome == 'released') then outcome = 'cancelled' end
  if outcome == 'retry' and job.attempt >= tonumber(job.max) then outcome, reason = 'dead', 'exhausted' end
  if outcome == 'released' then return release(id, job) end
  if has_flag(job, 's') then
    drop_flags(job, 's')
    call('HDEL', P .. 'j:' .. id, 'stalls')
  end
  if outcome == 'retry' then return retry_later(id, job, delay_ms, error) end
  unspend(job.target, job.key)
  if result ~= '' then call('SET', P .. 'r:' .. id, result) end
  finish(id, job, outcome, REASONS[reason] or '', result, error)
  return outcome
end

-- The same for most jobs, those without flags that went well; false for any other. The line tells all that it needs.
local function settle_plain(id, token, line, result)
  local flags, target, lane, to = match(line, '^%d+|%d*|%d*|%d*|(%a*)|([^|]*)|([^|]*)()', #token + 10)
  if flags ~= '' then return false end
  write_line(id, 'succeeded' .. sub(line, 8, to - 1))
  unspend(target, '')
  if result ~= '' then call('SET', P .. 'r:' .. id, result) end
  end_well(id, 'succeeded', lane, target)
  if followed then tell('succeeded', id, lane, target, match(token, '^%d+'), '') end
  return true
end

for i = 1, #jobs do unlease[i] = jobs[i][1] end
read_lines(unlease)
unlease = {}
for i = 1, #jobs do
  local id, token, outcome, delay_ms, reason, result, error = unpack(jobs[i])
  local line = lines[id]
  if not is_held(id, token) then
    out[i] = line and match(line, '^%a+|([^|]*)|') == token and 'duplicate' or 'lost'
  else
    unlease[#unlease + 1] = id
    if outcome == 'succeeded' and settle_plain(id, token, line, result) then
      out[i] = outcome
    else
      out[i] = settle(id, outcome, delay_ms, reason, result, error)
    end
  end
end
call_many('ZREM', P .. 'leases', unlease)
commit()
return cmsgpack.pack(out)
