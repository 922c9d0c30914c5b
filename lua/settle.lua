-- Writes attempts' outcomes back, each by its token's holder only. The token decides, not the clock: late work
-- that nobody reclaimed counts. A settle repeated after a lost reply is told that it is a duplicate.
--
-- KEYS  1 prefix
-- ARGV  per job 7: id, token, outcome (succeeded, retry, dead, released, cancelled), delay ms, reason,
--       result (JSON or ''), error (JSON or '')
-- Returns  per job: the status it has now (succeeded, retrying, dead, pending, cancelled), or duplicate, or lost
local WIDTH = 7
local OUTCOMES = { succeeded = true, retry = true, dead = true, released = true, cancelled = true }
if #ARGV % WIDTH ~= 0 then return redis.error_reply('ERR settle takes 7 values a job') end
for o = 0, #ARGV - 1, WIDTH do
  if not OUTCOMES[ARGV[o + 3]] or not tonumber(ARGV[o + 4]) then
    return redis.error_reply('ERR settle: no such outcome, or a delay that is no number')
  end
end

local REASONS = { exhausted = true, fatal = true, no_target = true }
local out = {}
local unlease = {}
local ready = false

local function retry_later(id, job, delay_ms, error)
  call('HSET', P .. 'j:' .. id, 'status', 'retrying', 'previous', delay_ms, 'updated', text(now_ms))
  call('ZADD', P .. 'due', text(now_us + delay_ms * 1000), id)
  log(id, log_line('retrying', job.attempt, ',"started":' .. job.started .. ',"dispatcher":"' .. (string.match(job.token, ':(.*)%.') or '')
    .. '","delay_ms":' .. text(delay_ms) .. (error ~= '' and (',"error":' .. error) or '')))
  bump('retried', job.lane, job.target)
end

local function release(id, job)
  call('HSET', P .. 'j:' .. id, 'status', 'pending', 'attempt', job.attempt - 1, 'updated', text(now_ms))
  make_ready(id, job.lane, job.rank, job.suspect)
  log(id, log_line('released', job.attempt))
  ready = true
end

for o = 0, #ARGV - 1, WIDTH do
  local id, token, outcome, delay_ms = ARGV[o + 1], ARGV[o + 2], ARGV[o + 3], tonumber(ARGV[o + 4])
  local reason, result, error = ARGV[o + 5], ARGV[o + 6], ARGV[o + 7]
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'status', 'token', 'attempt', 'max_attempts', 'target', 'lane', 'rank', 'cancel',
    'callback', 'suspect', 'started')
  local status
  if v[1] ~= 'running' or v[2] ~= token then
    status = v[2] == token and 'duplicate' or 'lost'
  else
    local job = { token = token, attempt = tonumber(v[3]), target = v[5], lane = v[6], rank = v[7], callback = v[9],
      suspect = v[10], started = v[11] }
    unlease[#unlease + 1] = id
    if v[8] and (outcome == 'retry' or outcome == 'released') then outcome = 'cancelled' end
    if outcome == 'retry' and job.attempt >= tonumber(v[4]) then
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
      if result ~= '' then call('SET', P .. 'r:' .. id, result) end
      finish(id, job, status, REASONS[reason] and reason or '', result, error)
      ready = ready or job.callback
    end
  end
  out[#out + 1] = status
end
call_many('ZREM', P .. 'leases', unlease)
flush_counters()
if ready then wake_one() end
return out
