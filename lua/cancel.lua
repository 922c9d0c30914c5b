-- Cancels a job: at once where it waits; where it runs, its dispatcher is asked to. Repeating it with the same
-- nonce gives the same answer.
--
-- KEYS  1 prefix
-- ARGV  1 id, 2 nonce
-- Returns  cancelled, asked, over (it had ended), or none (no such job)
local id, nonce = ARGV[1], ARGV[2]
if not nonce then return redis.error_reply('ERR cancel: id nonce') end
local jk = P .. 'j:' .. id
local v = call('HMGET', jk, 'status', 'lane', 'target', 'attempt', 'callback', 'cancel', 'key',
  'token')
local status = v[1]
if not status then return 'none' end
if status == 'cancelled' and v[6] == nonce then return 'cancelled' end
if status == 'running' then
  call('HSET', jk, 'cancel', nonce)
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
commit()
return 'cancelled'
