-- Carries a bulk replay on in this partition: looks at some more dead jobs, the longest dead first, and sends back those
-- that it is for, no faster than its rate. A job that dies again is not met a second time. Any number of dispatchers may
-- call it at once; a call that is repeated is only one more step.
--
-- KEYS  1 prefix
-- ARGV  1 replay id, 2 target ('': any), 3 reason ('': any), 4 dead since ms, 5 dead until ms, 6 jobs to send back at
--       most, 7 us a job, 8 jobs that may go at once, 9 max attempts from now on (0: as before), 10 dead jobs to look at
--       at most
-- Returns  1 state (running, done, stopped), 2 dead jobs that matched, 3 sent back, 4 skipped (no longer dead), 5 us
--       until it may go on (0: at once)
local id, target, reason = ARGV[1], ARGV[2], ARGV[3]
local since, till, most, interval = whole(ARGV[4], 0), whole(ARGV[5], 0), whole(ARGV[6], 0), whole(ARGV[7], 1)
local burst, max_attempts, window = whole(ARGV[8], 1), whole(ARGV[9], 0), whole(ARGV[10], 1)
if not (since and till and most and interval and burst and max_attempts and window) then
  return redis.error_reply('ERR replay_some: id target reason since until most interval burst max_attempts window')
end

local KEEP_MS = 30 * 86400000
local rk = P .. 'replay:' .. id
local v = call('HMGET', rk, 'state', 'score', 'member', 'till', 'tat', 'matched', 'replayed', 'skipped', 'began')
local state = v[1] or 'running'
local score, member = v[2], v[3]
-- what dies from now on is not of this replay
till = tonumber(v[4]) or math.min(till, now_ms)
local tat = math.min(math.max(tonumber(v[5] or 0), now_us), now_us + burst * interval)
local matched, replayed, skipped = tonumber(v[6] or 0), tonumber(v[7] or 0), tonumber(v[8] or 0)
if state ~= 'running' then return { state, matched, replayed, skipped, 0 } end

local index = P .. (target ~= '' and 'dead:' .. target or 'dead')
local first = score and rank_after(index, score, member, false) or call('ZCOUNT', index, '-inf', '(' .. text(since))
local found = call('ZRANGE', index, first, first + window - 1, 'WITHSCORES')
local tokens = floor((now_us + burst * interval - tat) / interval)
if #found < 2 * window then state = 'done' end

-- What becomes of one dead job: 'other' (not of this replay), or the verdict of its replay.
local function visit(job)
  local job_facts = call('HMGET', P .. 'j:' .. job, 'reason', 'replay')
  if job_facts[2] == id or (reason ~= '' and job_facts[1] ~= reason) then return 'other' end
  if tokens < 1 then return 'later' end
  matched = matched + 1
  return replay_job(job, id, max_attempts)
end

for i = 1, #found, 2 do
  if replayed >= most or tonumber(found[i + 1]) > till then
    state = 'done'
    break
  end
  local verdict = visit(found[i])
  if verdict == 'later' then
    state = 'running'
    break
  elseif verdict == 'replayed' then
    replayed = replayed + 1
    tokens = tokens - 1
    tat = tat + interval
  elseif verdict ~= 'other' then
    skipped = skipped + 1
  end
  score, member = found[i + 1], found[i]
end
if replayed >= most then state = 'done' end

if score then call('HSET', rk, 'score', score, 'member', member) end
call('HSET', rk, 'state', state, 'till', text(till), 'tat', text(tat), 'matched', matched, 'replayed', replayed,
  'skipped', skipped, 'updated', NOW)
-- the control partition's goes with the whole replay
if state ~= 'running' and not v[9] then call('PEXPIRE', rk, KEEP_MS) end
commit()
return { state, matched, replayed, skipped, tokens < 1 and math.max(0, tat - now_us - (burst - 1) * interval) or 0 }
