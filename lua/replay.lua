-- Sends dead jobs back to their lanes: same id, lane and priority, at the back of it; attempts, stalls, reason and
-- result cleared, the log kept. Repeating it with the same nonce gives the same answer, and never a second run.
--
-- KEYS  1 prefix
-- ARGV  1 nonce, then ids
-- Returns  per id: replayed, not_dead, or none (no such job)
local nonce = ARGV[1]
if not nonce then return redis.error_reply('ERR replay: nonce id…') end

local out = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'status', 'lane', 'target', 'rank', 'replay', 'key')
  local verdict = 'none'
  if v[5] == nonce then
    verdict = 'replayed'
  elseif v[1] == 'dead' then
    local rank = text(class_of(v[4]) * SPAN + new_seq())
    unbury(id, v[3])
    call('HDEL', jk, 'stalls', 'suspect', 'reason', 'finished', 'started', 'token', 'previous', 'expires', 'callback_id',
      'cancel', 'progress')
    call('DEL', P .. 'r:' .. id)
    call('HSET', jk, 'status', 'pending', 'attempt', 0, 'rank', rank, 'replay', nonce, 'updated', NOW)
    make_ready(id, v[2], v[3], v[6] or '', rank, false)
    woken = true
    log(id, log_line('replayed', 0))
    bump('replayed', v[2], v[3])
    verdict = 'replayed'
  elseif v[1] then
    verdict = 'not_dead'
  end
  out[#out + 1] = verdict
end
commit()
return out
