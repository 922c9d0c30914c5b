-- Prepended, after the breaker and the retries, to the scripts that settle: attempts' outcomes as lua/settle.lua promises.
local type = type
local OUTCOMES = { succeeded = true, retry = true, dead = true, released = true, cancelled = true, parked = true }
local REASONS = { exhausted = 'exhausted', fatal = 'fatal', no_target = 'no_target', gone = 'fatal' }
local out, out_n         -- numbers and statuses of those that have not succeeded, nil for none; how many jobs have been answered
local unlease, unlease_n -- ids whose leases end
local alikes             -- line -> what is known of the jobs that have it
local keyed              -- the last of those that are known by the line up to its key
local results            -- keys and values; nil: none
local NOTHING = cmsgpack.pack(NONE)

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

-- The work goes on elsewhere: the job runs on without a dispatcher, its lease is its own deadline. Said again, it stays.
-- Such a job has the flag w, and in j:<id> `parked`: ms that each sign of life gives it, and ms of the retry's delay.
local function park(id, job, within_ms, retry_ms)
  if has_flag(job, 'w') then return 'parked' end
  judge(job.target, id, false, '')
  call('HSET', P .. 'j:' .. id, 'parked', text(within_ms) .. ' ' .. retry_ms)
  add_flag(job, 'w')
  add_flag(job, 'o')
  save(id, job)
  call('ZADD', P .. 'leases', now_ms + within_ms, id)
  log(id, log_line('parked', job.attempt, of_attempt(job)))
  return 'parked'
end

-- Nobody who knew its target had the job: it waits for somebody who does. False once it has waited for `patience_ms`.
-- Such a job has in j:<id> `unknown`: when that began.
local function await_target(id, job, delay_ms, patience_ms, error)
  local since = tonumber(call('HGET', P .. 'j:' .. id, 'unknown'))
  if since and now_ms - since >= patience_ms then return false end
  if not since then call('HSET', P .. 'j:' .. id, 'unknown', NOW) end
  local attempt = job.attempt
  retry_later(id, job, delay_ms, error)
  job.attempt = attempt - 1
  save(id, job)
  return true
end

-- Any end of an attempt; the status that the job has now.
local function settle(id, outcome, delay_ms, reason, result, error)
  local job = load(id)
  if has_flag(job, 'q') and (outcome == 'retry' or outcome == 'released' or outcome == 'parked') then outcome = 'cancelled' end
  if outcome == 'parked' then return park(id, job, delay_ms, reason) end
  delay_ms = math.max(delay_ms, unpark(id, job))
  if outcome == 'retry' and reason ~= '' and whole(reason, 0) then
    if await_target(id, job, delay_ms, whole(reason, 0), error) then return 'retrying' end
    outcome, reason = 'dead', 'no_target'
  end
  if outcome == 'retry' and job.attempt >= tonumber(job.max) then outcome, reason = 'dead', 'exhausted' end
  local died_of = outcome == 'dead' and reason
  if outcome == 'retry' or died_of == 'exhausted' then
    if judge(job.target, id, true, error) then outcome = 'released' end
  elseif outcome == 'succeeded' or died_of == 'fatal' then
    judge(job.target, id, false, error)
  elseif died_of == 'gone' then
    disable(job.target, id, error)
  end
  if outcome == 'released' then return release(id, job) end
  if has_flag(job, 's') then
    drop_flags(job, 's')
    call('HDEL', P .. 'j:' .. id, 'stalls')
  end
  if outcome == 'retry' then
    call('HDEL', P .. 'j:' .. id, 'unknown')
    return retry_later(id, job, delay_ms, error)
  end
  unspend(job.target, job.key)
  if result ~= '' then call('SET', P .. 'r:' .. id, result) end
  finish(id, job, outcome, REASONS[reason] or '', result, error)
  return outcome
end

-- What became of the job that has just been counted.
local function tell_of(status)
  out = out or {}
  out[#out + 1], out[#out + 2] = out_n, status
end

local function answer(id, status)
  unlease_n = unlease_n + 1
  unlease[unlease_n] = id
  out_n = out_n + 1
  if status ~= 'succeeded' then tell_of(status) end
end
local function refuse(line, token)
  out_n = out_n + 1
  tell_of(line and match(line, '^%a+|([^|]*)|') == token and 'duplicate' or 'lost')
end

-- What jobs have in common that were claimed together, by the line that tells it: the token, target, lane and key, and
-- the line of those that have succeeded; false for another line. Of keys that are never blocked nothing is counted, so
-- there it is by the line's `length` up to the key, which each of them then has at the end of its own.
local function read_alike(line)
  local token, flags, target, lane, mark, length, key =
    match(line, '^running|([^|]*)|%d+|%d*|%d*|%d*|(k?)|([^|]*)|([^|]*)|(=?)()(.*)$')
  if not (token and (flags == 'k' and mark == '=' or flags == '' and mark .. key == '')) then
    alikes[line] = false
    return false
  end
  local t = target_node(target)
  local it = { token = token, target = target, lane = lane, key = key, judged = is_judged(target),
    over = 'succeeded' .. sub(line, 8), n = 0 }
  if flags == 'k' and (not t or t.bare == 1) then
    line = sub(line, 1, length - 1)
    it.key, it.over, it.length, it.line = '', 'succeeded' .. sub(line, 8), length - 1, line
    it = alikes[line] or it -- of another claim in between: what it has counted so far is not to be lost
    keyed = it
  end
  alikes[line] = it
  return it
end

local function alike_of(line)
  if alikes[line] ~= nil then return alikes[line] end
  if keyed and (line == keyed.last or sub(line, 1, keyed.length) == keyed.line) then return keyed end
  return read_alike(line)
end

-- A job succeeded, of which no more than this is to be known.
local function succeed(id, it)
  local over = it.over
  if it.length then
    local line = lines[id]
    if line ~= it.last then it.last, it.last_over = line, over .. sub(line, it.length + 1) end
    over = it.last_over
  end
  write_line(id, over)
  it.n = it.n + 1
  if it.judged then judge(it.target, id, false, '') end
  end_well(id)
  if followed then tell('succeeded', id, it.lane, it.target, match(it.token, '^%d+'), '') end
  answer(id, 'succeeded')
end

-- Any outcome, if the token holds the job.
local function settle_held(id, token, outcome, delay_ms, reason, result, error)
  local line = lines[id]
  local it = line and alike_of(line)
  if it and it.token == token and outcome == 'succeeded' then
    if result ~= '' then
      results = results or {}
      results[#results + 1] = P .. 'r:' .. id
      results[#results + 1] = result
    end
    return succeed(id, it)
  end
  if not is_held(id, token) then return refuse(line, token) end
  local status = settle(id, outcome, delay_ms, reason, result, error)
  answer(id, status)
  if status == 'parked' then unlease_n = unlease_n - 1 end -- its lease is its deadline
end

-- Jobs of a run that succeeded, from its place `i` on, as long as they are told by one line, or by what it has up to the
-- key: where they end.
local function succeed_alike(run, i, last, it)
  local first, w, d, u = i, written_n, done_n, unlease_n
  if d == 0 then done = { nil, nil } end
  local length, over = it.length, it.over
  local text = length and over .. sub(last, length + 1) or over
  local id, line = run[i], last
  while id do
    if line ~= last then
      if not (length and line and sub(line, 1, length) == it.line) then break end
      last, text = line, over .. sub(line, length + 1)
    end
    lines[id], written[w + 1], written[w + 2] = text, id, text
    done[d + 1], done[d + 2], unlease[u + 1] = NOW, id, id
    w, d, u, i = w + 2, d + 2, u + 1, i + 1
    id = run[i]
    line = lines[id]
  end
  written_n, done_n, unlease_n, out_n = w, d, u, out_n + i - first
  it.n = it.n + i - first
  return i
end

-- Jobs that succeeded without a result, with the token that they share before them.
local function settle_run(run)
  local token, i, most = run[1], 2, #run
  if awaited == nil then awaited = call('EXISTS', P .. 'waiters') == 1 end
  local plain = not awaited and not followed
  while i <= most do
    local id = run[i]
    local line = lines[id]
    local it = alikes[line]
    if it == nil and line then it = alike_of(line) end
    if not (it and it.token == token) then
      settle_held(id, token, 'succeeded', 0, '', '', '')
      i = i + 1
    elseif plain and not it.judged then
      i = succeed_alike(run, i, line, it)
    else
      succeed(id, it)
      i = i + 1
    end
  end
end

local function flush_alikes()
  for _, it in pairs(alikes) do
    if it and it.n > 0 then
      bump('succeeded', it.lane, it.target, it.n)
      unspend(it.target, it.key, nil, it.n)
    end
  end
  for first = 1, results and #results or 0, CHUNK do
    call('MSET', unpack(results, first, math.min(first + CHUNK - 1, #results)))
  end
end

local function fault_of(runs, jobs)
  for i = 1, #runs do
    local run = runs[i]
    if type(run) ~= 'table' or #run < 2 then return redis.error_reply('ERR settle: run ' .. i .. ' is no token and ids') end
    for at = 1, #run do
      if type(run[at]) ~= 'string' or run[at] == '' then return redis.error_reply('ERR settle: no id or token in run ' .. i) end
    end
  end
  for i = 1, #jobs do
    local id, token, outcome, delay_ms, reason, result, error = unpack(jobs[i])
    if type(id) ~= 'string' or type(token) ~= 'string' or token == '' or type(reason) ~= 'string' or type(result) ~= 'string'
        or type(error) ~= 'string' or not OUTCOMES[outcome] or outcome == 'parked' and not whole(reason, 0) or type(delay_ms) ~= 'number' or not whole(delay_ms, 0) then
      return redis.error_reply('ERR settle: no such outcome or delay, or a value of the wrong type, for job ' .. i)
    end
  end
end

-- Settles what the first two arguments say; the reply, or nothing and the error if they are wrong.
local function settle_all()
  local runs, jobs = flat(1, 1), args[2] == NOTHING and NONE or batch(2, 7)
  if not (runs and jobs) then return nil, redis.error_reply('ERR settle takes tokens with ids, and a batch of 7 values a job') end
  local fault = fault_of(runs, jobs)
  if fault then return nil, fault end
  out, out_n, unlease, unlease_n, alikes, keyed, results = nil, 0, { nil }, 0, {}, nil, nil
  for i = 1, #runs do read_lines(runs[i], nil, 2) end
  if #jobs > 0 then
    local ids = {}
    for i = 1, #jobs do ids[i] = jobs[i][1] end
    read_lines(ids)
  end
  for i = 1, #runs do settle_run(runs[i]) end
  for i = 1, #jobs do settle_held(unpack(jobs[i])) end
  unlease[unlease_n + 1] = nil
  flush_alikes()
  call_many('ZREM', K.leases, unlease)
  flush_breakers()
  return out and cmsgpack.pack(out) or NOTHING
end
