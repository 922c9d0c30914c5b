-- Cancels a job: at once where it waits; where it runs, its dispatcher is asked to. Repeating it with the same
-- nonce gives the same answer.
--
-- KEYS  1 prefix
-- ARGV  1 id, 2 nonce
-- Returns  cancelled, asked, over (it had ended), or none (no such job)
local id, nonce = ARGV[1], ARGV[2]
if not nonce then return redis.error_reply('ERR cancel: id nonce') end
local verdict = cancel_job(id, nonce)
commit()
return verdict
