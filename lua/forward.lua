-- Takes in jobs that another partition's outbox has kept: each as submit would have, had it been called here then. One
-- that came before is left alone, for as long as an idempotency key is remembered by default, whatever became of it. A
-- lane's cap does not hold for what was acknowledged already.
--
-- KEYS  1 prefix
-- ARGV  per job 2: ms since it was submitted, the submit (MessagePack): 13 values, id, lane, target, key, priority, delay ms, expires ms,
--       max attempts, callback, idempotency hash, fingerprint, window ms, body (as in lua/submit.lua)
-- Returns  per job: accepted, or there (it is, or was, or repeats an earlier job)
if #ARGV < 2 or #ARGV % 2 ~= 0 then return redis.error_reply('ERR forward: [lag submit]…') end
local NUMBERS = { [5] = -100, [6] = 0, [7] = 0, [8] = 1, [12] = 0 }
local submits, lags = {}, {}
for i = 1, #ARGV / 2 do
  local ok, values = pcall(cmsgpack.unpack, ARGV[2 * i])
  lags[i] = whole(ARGV[2 * i - 1], 0)
  if not lags[i] or not ok or type(values) ~= 'table' or #values ~= 13 then
    return redis.error_reply('ERR forward: job ' .. i .. ' is no delay and submit')
  end
  for at = 1, 13 do
    local right = NUMBERS[at] and type(values[at]) == 'number' and whole(values[at], NUMBERS[at])
      or not NUMBERS[at] and type(values[at]) == 'string'
    if not right then return redis.error_reply('ERR forward: value ' .. at .. ' of job ' .. i .. ' is wrong') end
  end
  submits[i] = values
end

local KEPT_MS = 86400000
-- Is there, or was there, this job, or an earlier one with its idempotency key?
local function was_there(id, hash, fingerprint)
  if status_of(id) or call('EXISTS', P .. 'idem:>' .. id) == 1 then return true end
  local known = hash ~= '' and call('GET', P .. 'idem:' .. hash)
  if not known then return false end
  -- a dead one does not count for a delivery (lua/submit.lua)
  return not (string.byte(fingerprint) == 126 and status_of(match(known, '^%S+')) == 'dead')
end

local out = {}
for i = 1, #submits do
  local id, lane, target, key, priority, delay, expires, max_attempts, callback, hash, fingerprint, window, body =
    unpack(submits[i])
  local lag = lags[i]
  if was_there(id, hash, fingerprint) then
    out[i] = 'there'
  else
    local run_at = delay > 0 and now_ms - lag + delay or nil
    local terms = renew(terms_of(lane, target, priority, math.max(0, delay - lag), run_at,
      expires > 0 and math.max(1, expires - lag) or 0, max_attempts, callback))
    accept(new_seq(), id, P .. 'b:' .. id, terms, key, body)
    place_accepted() -- at once, so that a second one of the same id finds it
    if hash ~= '' then call('SET', P .. 'idem:' .. hash, id .. ' ' .. fingerprint, 'PX', window) end
    out[i] = 'accepted'
  end
  call('SET', P .. 'idem:>' .. id, id .. ' >', 'PX', KEPT_MS)
end
commit()
return out
