-- Prepended after the flows: how a job ends, who is told, and how a dead one comes back.

-- A UUIDv7 for a job that this script makes itself: its noise is the SHA-1 of its cause, its last byte the
-- partition (that of the cause, since the new job lies beside it).
local function derived_id(cause_id, cause)
  local noise = redis.sha1hex(cause_id .. ' ' .. cause)
  local ms = string.format('%04x%08x', floor(now_ms / 4294967296), now_ms % 4294967296)
  local variant = string.sub('89ab', tonumber(string.sub(noise, 1, 1), 16) % 4 + 1, tonumber(string.sub(noise, 1, 1), 16) % 4 + 1)
  return string.sub(ms, 1, 8) .. '-' .. string.sub(ms, 9, 12) .. '-7' .. string.sub(noise, 2, 4) .. '-' .. variant
    .. string.sub(noise, 5, 7) .. '-' .. string.sub(noise, 8, 17) .. string.sub(cause_id, 35, 36)
end

local EVENTS = { succeeded = 's', dead = 'd', cancelled = 'c' }
local CALLBACK_TARGET = 'gateway.callback'
local CALLBACK_ATTEMPTS = 8

-- Makes the callback job of a job that has just ended, if its client asked to hear of such an end. `error` is
-- JSON text or ''. The new job carries the first one's options, so that nothing of it need still exist.
local function notify(id, job, status, reason, result, error)
  if not job.callback or not string.find(job.callback, EVENTS[status], 1, true) then return end
  local new = derived_id(id, status .. ' ' .. (job.token or '') .. ' ' .. text(now_us))
  local body = call('GET', P .. 'b:' .. id) or '\n'
  local options = string.sub(body, 1, string.find(body, '\n', 1, true) - 1)
  local cause = '{"cause":{"job_id":"' .. id .. '","target":"' .. job.target .. '","status":"' .. status
    .. '","attempts":' .. (job.attempt or 0) .. ',"at_ms":' .. NOW
    .. ',"reason":"' .. reason .. '"' .. (error ~= '' and (',"error":' .. error) or '') .. '}'
    .. (options ~= '' and (',"parent":' .. options) or '') .. '}'
  local rank = 100 * SPAN + new_seq()
  call('HSET', P .. 'j:' .. new, 'status', 'pending', 'lane', job.lane, 'target', CALLBACK_TARGET, 'rank', text(rank),
    'attempt', 0, 'max', CALLBACK_ATTEMPTS, 'created', NOW)
  call('SET', P .. 'b:' .. new, cause .. '\n' .. result)
  make_ready(new, job.lane, CALLBACK_TARGET, '', rank, false)
  woken = true
  call('HSET', P .. 'j:' .. id, 'callback_id', new)
  bump('submitted', job.lane, CALLBACK_TARGET)
  if followed then tell('accepted', new, job.lane, CALLBACK_TARGET) end
end

-- Removes all that is kept of a finished job, but its place in `dead` or `done`.
local function forget(id)
  local v = call('HMGET', P .. 'j:' .. id, 'lane', 'target', 'status')
  if v[1] then bump('evicted', v[1], v[2]) end
  if v[3] == 'dead' then call('ZREM', P .. 'dead:' .. v[2], id) end
  call('UNLINK', P .. 'j:' .. id, P .. 'b:' .. id, P .. 'r:' .. id, P .. 'e:' .. id)
end

-- Puts a job in the dead-letter queue. A target over its cap loses its own oldest dead, never another's.
local function bury(id, target)
  local own = P .. 'dead:' .. target
  call('ZADD', P .. 'dead', now_ms, id)
  call('ZADD', own, now_ms, id)
  local over = DEAD_MOST > 0 and call('ZCARD', own) - DEAD_MOST or 0
  for _, old in ipairs(over > 0 and call('ZRANGE', own, 0, math.min(over, 2) - 1) or {}) do
    call('ZREM', P .. 'dead', old)
    forget(old)
  end
end

local function unbury(id, target)
  call('ZREM', P .. 'dead', id)
  call('ZREM', P .. 'dead:' .. target, id)
end

-- The end of a job: its record, its index, its counter and its callback. `job` has lane, target, attempt, token
-- and callback. Its leases, lane or due entry is the caller's to remove.
local function finish(id, job, status, reason, result, error)
  local jk = P .. 'j:' .. id
  if status == 'dead' then
    call('HSET', jk, 'status', status, 'reason', reason)
    log(id, log_line('dead', job.attempt, ',"reason":"' .. reason .. '"' .. of_attempt(job)
      .. (error ~= '' and (',"error":' .. error) or '')))
  else
    call('HSET', jk, 'status', status)
    done[#done + 1] = now_ms
    done[#done + 1] = id
    if status == 'cancelled' then log(id, log_line('cancelled', job.attempt, of_attempt(job))) end
  end
  ended[#ended + 1] = id
  bump(status, job.lane, job.target)
  if followed then tell(status, id, job.lane, job.target, job.attempt, reason) end
  notify(id, job, status, reason, result, error)
  -- last, since of several that die in one ms it may be this one that goes
  if status == 'dead' then bury(id, job.target) end
end

-- Sends a dead job back to its lane: same id, lane and priority, at the back of it; attempts, stalls, reason and result
-- cleared, the log kept. 'replayed', also where this nonce did it before; 'not_dead'; 'none' if there is no such job.
-- `max_attempts`: what it may have now, 0 as before.
local function replay_job(id, nonce, max_attempts)
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'status', 'lane', 'target', 'rank', 'replay', 'key')
  if v[5] == nonce then return 'replayed' end
  if not v[1] then return 'none' end
  if v[1] ~= 'dead' then return 'not_dead' end
  local rank = text(class_of(v[4]) * SPAN + new_seq())
  unbury(id, v[3])
  call('HDEL', jk, 'stalls', 'suspect', 'reason', 'started', 'token', 'previous', 'expires', 'callback_id',
    'cancel', 'progress')
  call('DEL', P .. 'r:' .. id)
  call('HSET', jk, 'status', 'pending', 'attempt', 0, 'rank', rank, 'replay', nonce, 'updated', NOW,
    'more', 1)
  if max_attempts > 0 then call('HSET', jk, 'max', max_attempts) end
  make_ready(id, v[2], v[3], v[6] or '', rank, false)
  woken = true
  log(id, log_line('replayed', 0))
  bump('replayed', v[2], v[3])
  if followed then tell('replayed', id, v[2], v[3]) end
  return 'replayed'
end

-- Cancels a job, as lua/cancel.lua promises; its answer.
local function cancel_job(id, nonce)
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'status', 'lane', 'target', 'attempt', 'callback', 'cancel', 'key',
    'token')
  local status = v[1]
  if not status then return 'none' end
  if status == 'cancelled' and v[6] == nonce then return 'cancelled' end
  if status == 'running' then
    call('HSET', jk, 'cancel', nonce, 'more', 1)
    -- a hint, so that it need not wait for the next renewal of the lease
    local dispatcher = string.match(v[8] or '', ':(.*)%.')
    if dispatcher then call('SPUBLISH', P .. 'wake:' .. dispatcher, 'cancel ' .. id) end
    return 'asked'
  end
  if status == 'pending' then
    unmake_ready(id, v[2], v[3], v[7] or '')
  elseif status == 'scheduled' or status == 'retrying' then
    call('ZREM', P .. 'due', id)
    unhold(v[3], v[7] or '', id)
  else
    return 'over'
  end
  call('HSET', jk, 'cancel', nonce)
  finish(id, { lane = v[2], target = v[3], attempt = v[4], callback = v[5] }, 'cancelled', '', '', '')
  return 'cancelled'
end
