-- Sends dead jobs back to their lanes: same id, lane and priority, at the back of it; attempts, stalls, reason and
-- result cleared, the log kept. Repeating it with the same nonce gives the same answer, and never a second run.
--
-- KEYS  1 prefix
-- ARGV  1 nonce, 2 max attempts from now on (0: as before), then ids
-- Returns  per id: replayed, not_dead, or none (no such job)
local nonce, max_attempts = ARGV[1], whole(ARGV[2], 0)
if not max_attempts then return redis.error_reply('ERR replay: nonce max_attempts id…') end

local out = {}
for i = 3, #ARGV do out[#out + 1] = replay_job(ARGV[i], nonce, max_attempts) end
commit()
return out
