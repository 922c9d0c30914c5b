-- Prepended after the flows: how a job ends, who is told, and how a dead one comes back.

-- A UUIDv7 for a job that this script makes itself: its noise is the SHA-1 of its cause, its last byte the
-- partition (that of the cause, since the new job lies beside it).
local function derived_id(cause_id, cause, place)
  local noise = redis.sha1hex(cause_id .. ' ' .. cause)
  local ms = string.format('%04x%08x', floor(now_ms / 4294967296), now_ms % 4294967296)
  local variant = string.sub('89ab', tonumber(string.sub(noise, 1, 1), 16) % 4 + 1, tonumber(string.sub(noise, 1, 1), 16) % 4 + 1)
  return string.sub(ms, 1, 8) .. '-' .. string.sub(ms, 9, 12) .. '-7' .. string.sub(noise, 2, 4) .. '-' .. variant
    .. string.sub(noise, 5, 7) .. '-' .. string.sub(noise, 8, 17) .. place
end

local EVENTS = { succeeded = 's', dead = 'd', cancelled = 'c', retrying = 'r' }
local CALLBACK_TARGET = 'gateway.callback'
local CALLBACK_ATTEMPTS = 20 -- those of the policy (gateway/backoff.py)

-- Makes the callback job of a job that has just ended, or will be retried, if its client asked to hear of that. `error`
-- is JSON text or ''. A job's `callback` is the events that are wanted, the callback's attempts, and after an `@` the partition (in hex) and key of the
-- callback job, where they are not the first job's partition and none. The new job carries the first one's options, so
-- that nothing of it need still exist.
local function notify(id, job, status, reason, result, error, delay_ms)
  local wanted, most, place, key = match(job.callback, '^(%a*)(%d*)@?(%x*):?(.*)$')
  if not find(wanted, EVENTS[status], 1, true) then return end
  local new = derived_id(id, status .. ' ' .. job.token .. ' ' .. text(now_us), place ~= '' and place or sub(id, 35, 36))
  local options = match(head_of(id, 2), '\n(.*)\n$') or ''
  local cause = '{"cause":{"job_id":"' .. id .. '","target":"' .. job.target .. '","status":"' .. status
    .. '","attempts":' .. job.attempt .. ',"at_ms":' .. NOW
    .. ',"reason":"' .. reason .. '"' .. (delay_ms and (',"delay_ms":' .. text(delay_ms)) or '') .. (error ~= '' and (',"error":' .. error) or '') .. '}'
    .. (options ~= '' and (',"parent":' .. options) or '') .. '}'
  local body = cause .. '\n' .. result
  most = tonumber(most) or CALLBACK_ATTEMPTS
  if status == 'retrying' then
    log(id, log_line('callback', job.attempt, ',"callback":"' .. new .. '"'))
  else
    call('HSET', P .. 'j:' .. id, 'callback_id', new)
  end
  if is_elsewhere(new) then
    post(new, { new, job.lane, CALLBACK_TARGET, key, 0, 0, 0, most, '', '', '', 0, body })
    return
  end
  local rank = text(100 * SPAN + new_seq())
  local facts = facts_of({ flags = key ~= '' and 'k' or '', target = CALLBACK_TARGET, lane = job.lane, expires = '',
    callback = '', max = most, rank = rank, created = NOW, run_at = '', key = key })
  call('SET', P .. 'b:' .. new, facts .. '\n' .. body)
  make_ready(new, job.lane, CALLBACK_TARGET, key, rank, false)
  woken = true
  bump('submitted', job.lane, CALLBACK_TARGET)
  if followed then tell('accepted', new, job.lane, CALLBACK_TARGET) end
end

local dead_most -- dead jobs kept of each target; 0: not said yet, so all; nil until it is asked
at_begin(function() dead_most = nil end)

-- Puts a job in the dead-letter queue. A target over its cap loses its own oldest dead, never another's.
local function bury(id, target)
  local own = P .. 'dead:' .. target
  call('ZADD', P .. 'dead', now_ms, id)
  call('ZADD', own, now_ms, id)
  if not dead_most then dead_most = tonumber(call('HGET', P .. 'conf', 'dead_most') or 0) end
  local over = dead_most > 0 and call('ZCARD', own) - dead_most or 0
  for _, old in ipairs(over > 0 and call('ZRANGE', own, 0, math.min(over, 2) - 1) or {}) do
    call('ZREM', P .. 'dead', old)
    forget(old)
  end
end

local function unbury(id, target)
  call('ZREM', P .. 'dead', id)
  call('ZREM', P .. 'dead:' .. target, id)
end

-- What every end but a death has beside its counter: its index, and those told who wait for it.
local function end_well(id)
  if done_n == 0 then done = { nil, nil } end
  done[done_n + 1], done[done_n + 2] = NOW, id
  done_n = done_n + 2
  if awaited ~= false then note_end(id) end
end

-- The end of a job that load() gave: its record, its index, its counter and its callback. Its leases, lane or due entry
-- is the caller's to remove.
local function finish(id, job, status, reason, result, error)
  if status == 'dead' then
    call('HSET', P .. 'j:' .. id, 'reason', reason)
    log(id, log_line('dead', job.attempt, ',"reason":"' .. reason .. '"' .. of_attempt(job)
      .. (error ~= '' and (',"error":' .. error) or '')))
    note_end(id)
    stand('dead', job.lane, 1)
  else
    if status == 'cancelled' then log(id, log_line('cancelled', job.attempt, of_attempt(job))) end
    end_well(id)
  end
  bump(status, job.lane, job.target)
  if followed then tell(status, id, job.lane, job.target, job.attempt, reason) end
  job.status = status
  save(id, job)
  notify(id, job, status, reason, result, error)
  if status == 'dead' then bury(id, job.target) end
end

-- Sends a dead job back to its lane: same id, lane and priority, at the back of it; attempts, stalls, reason and result
-- cleared, the log kept. 'replayed', also where this nonce did it before; 'not_dead'; 'none' if there is no such job.
-- `max_attempts`: what it may have now, 0 as before.
local function replay_job(id, nonce, max_attempts)
  local jk = P .. 'j:' .. id
  local job = load(id)
  if not job then return 'none' end
  if call('HGET', jk, 'replay') == nonce then return 'replayed' end
  if job.status ~= 'dead' then return 'not_dead' end
  unbury(id, job.target)
  stand('dead', job.lane, -1)
  call('HDEL', jk, 'stalls', 'reason', 'callback_id', 'cancel', 'progress', 'unknown')
  call('HSET', jk, 'replay', nonce)
  call('DEL', P .. 'r:' .. id)
  job.status, job.token, job.attempt, job.started, job.previous, job.updated = 'pending', '', 0, '', '', NOW
  job.rank = text(class_of(job.rank) * SPAN + new_seq())
  job.expires = ''
  drop_flags(job, 'sqx')
  add_flag(job, 'o')
  if max_attempts > 0 then job.max = text(max_attempts) end
  save(id, job)
  make_ready(id, job.lane, job.target, job.key, job.rank, false)
  woken = true
  log(id, log_line('replayed', 0))
  bump('replayed', job.lane, job.target)
  if followed then tell('replayed', id, job.lane, job.target) end
  return 'replayed'
end

-- The end of work elsewhere (settling.lua): ms that a retry waits at least; 0 for a job that was not parked.
local function unpark(id, job)
  if not has_flag(job, 'w') then return 0 end
  local parked = call('HGET', P .. 'j:' .. id, 'parked') or ''
  call('HDEL', P .. 'j:' .. id, 'parked')
  drop_flags(job, 'w')
  return tonumber(match(parked, ' (%d+)$') or 0)
end

-- Cancels a job, as lua/cancel.lua promises; its answer.
local function cancel_job(id, nonce)
  local jk = P .. 'j:' .. id
  local job = load(id)
  if not job then return 'none' end
  local status = job.status
  if status == 'cancelled' and call('HGET', jk, 'cancel') == nonce then return 'cancelled' end
  local parked = status == 'running' and has_flag(job, 'w') -- nobody of ours is at it
  if status == 'running' and not parked then
    call('HSET', jk, 'cancel', nonce)
    add_flag(job, 'q')
    save(id, job)
    -- so that it need not wait for the next renewal of the lease
    local dispatcher = match(job.token, ':(.*)%.')
    if dispatcher then hint('wake:' .. dispatcher, 'cancel ' .. id) end
    return 'asked'
  end
  if parked then
    call('ZREM', P .. 'leases', id)
    unpark(id, job)
    unspend(job.target, job.key)
  elseif status == 'pending' then
    unmake_ready(id, job.lane, job.target, job.key)
  elseif status == 'scheduled' or status == 'retrying' then
    call('ZREM', P .. 'due', id)
    stand(status, job.lane, -1)
    unhold(job.target, job.key, id)
  else
    return 'over'
  end
  call('HSET', jk, 'cancel', nonce)
  finish(id, job, 'cancelled', '', '', '')
  return 'cancelled'
end
