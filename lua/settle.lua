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
  if type(id) ~= 'string' or type(token) ~= 'string' or type(reason) ~= 'string' or type(result) ~= 'string'
      or type(error) ~= 'string' or not OUTCOMES[outcome] or type(delay_ms) ~= 'number' or not whole(delay_ms, 0) then
    return redis.error_reply('ERR settle: no such outcome or delay, or a value of the wrong type, for job ' .. i)
  end
end

local REASONS = { exhausted = 'exhausted', fatal = 'fatal', no_target = 'no_target', gone = 'fatal' }
local out = {}
local unlease = {}

local function retry_later(id, job, delay_ms, error)
  call('HSET', P .. 'j:' .. id, 'status', 'retrying', 'previous', delay_ms, 'updated', NOW, 'more', 1)
  local t = target_node(job.target)
  unspend(job.target, job.key, t and t.ordered == 1 and id or nil)
  call('ZADD', P .. 'due', now_us + delay_ms * 1000, id)
  log(id, log_line('retrying', job.attempt, of_attempt(job) .. ',"delay_ms":' .. text(delay_ms) .. (error ~= '' and (',"error":' .. error) or '')))
  bump('retried', job.lane, job.target)
  if followed then tell('retrying', id, job.lane, job.target, job.attempt, text(delay_ms)) end
end

local function release(id, job)
  call('HSET', P .. 'j:' .. id, 'status', 'pending', 'attempt', job.attempt - 1, 'updated', NOW,
    'more', 1)
  unspend(job.target, job.key)
  make_ready(id, job.lane, job.target, job.key, call('HGET', P .. 'j:' .. id, 'rank'), job.suspect)
  log(id, log_line('released', job.attempt, of_attempt(job)))
  if followed then tell('released', id, job.lane, job.target, job.attempt) end
  woken = true
end

for i = 1, #jobs do
  local id, token, outcome, delay_ms, reason, result, error = unpack(jobs[i])
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'status', 'token', 'target', 'lane', 'more')
  local status
  if v[1] ~= 'running' or v[2] ~= token then
    status = v[2] == token and 'duplicate' or 'lost'
  else
    local rare = v[5] and call('HMGET', jk, 'cancel', 'callback', 'suspect', 'key') or NONE
    local job = { token = token, attempt = tonumber(string.match(token, '^%d+')), target = v[3], lane = v[4],
      callback = rare[2], suspect = rare[3], key = rare[4] or '' }
    if outcome ~= 'succeeded' then job.started = call('HGET', jk, 'started') end
    unlease[#unlease + 1] = id
    if rare[1] and (outcome == 'retry' or outcome == 'released') then outcome = 'cancelled' end
    if outcome == 'retry' and job.attempt >= tonumber(call('HGET', jk, 'max')) then
      outcome, reason = 'dead', 'exhausted'
    end
    if job.suspect and outcome ~= 'released' then call('HDEL', jk, 'suspect', 'stalls') end
    if outcome == 'retry' then
      retry_later(id, job, delay_ms, error)
      status = 'retrying'
    elseif outcome == 'released' then
      release(id, job)
      status = 'pending'
    else
      status = outcome
      unspend(job.target, job.key)
      if result ~= '' then call('SET', P .. 'r:' .. id, result) end
      finish(id, job, status, REASONS[reason] or '', result, error)
    end
  end
  out[i] = status
end
call_many('ZREM', P .. 'leases', unlease)
commit()
return cmsgpack.pack(out)
