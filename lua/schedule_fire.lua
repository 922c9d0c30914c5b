-- Fires slots of a schedule and moves on to the next one, or does nothing if it is no longer just so: of any number of
-- dispatchers, and of any repeats, one fires a slot. With no slot expected it makes a job at once and moves nothing.
--
-- KEYS  1 prefix
-- ARGV  1 name, 2 revision, 3 slot ms that it waits for ('': make a job now), 4 next slot ms, 5 when that one fires ms,
--       6 slots given up, 7 overlap (allow, forbid, replace), 8 lane, 9 target, 10 key, 11 priority, 12 max attempts,
--       13 body, 14 a batch, per job 2: id, slot ms, 15 callback (as in lua/submit.lua)
-- Returns  1 verdict: fired, moved (not as expected), none (no such schedule) or full (the lane is; what was not fired
--       waits), then per job: accepted or overlap
local name, revision, expected = ARGV[1], ARGV[2], ARGV[3]
local next_slot, next_at, missed = whole(ARGV[4], 0), whole(ARGV[5], 0), whole(ARGV[6], 0)
local overlap, lane, target, key, body, callback = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[13], ARGV[15]
local priority, max_attempts = whole(ARGV[11], -100), whole(ARGV[12], 1)
local jobs = batch(14, 2)
if not (next_slot and next_at and missed and priority and priority <= 100 and max_attempts and jobs and is_callback(callback or '|'))
    or (overlap ~= 'allow' and overlap ~= 'forbid' and overlap ~= 'replace') or (expected ~= '' and not whole(expected, 0)) then
  return redis.error_reply('ERR schedule_fire: name revision slot next_slot next_at missed overlap lane target key priority max_attempts body batch callback')
end
for i = 1, #jobs do
  if type(jobs[i][1]) ~= 'string' or type(jobs[i][2]) ~= 'number' or not whole(jobs[i][2], 0) then
    return redis.error_reply('ERR schedule_fire: job ' .. i .. ' is not an id and a slot')
  end
end

local sk = P .. 'schedule:' .. name
local v = call('HMGET', sk, 'revision', 'slot', 'job')
if not v[1] then return { 'none' } end
if expected ~= '' and (v[1] ~= revision or v[2] ~= expected) then return { 'moved' } end

local UNFINISHED = { scheduled = true, pending = true, running = true, retrying = true }
local previous = v[3]
local out = { 'fired' }
local fired, overlapped = 0, 0
for i = 1, #jobs do
  local id, slot = jobs[i][1], jobs[i][2]
  local verdict = 'accepted'
  if not status_of(id) then
    local busy = previous and UNFINISHED[status_of(previous) or '']
    if busy and overlap == 'forbid' then
      verdict = 'overlap'
      overlapped = overlapped + 1
    elseif room(lane).left <= 0 then
      out[1] = 'full'
      next_slot, next_at = slot, now_ms + 1000
      break
    else
      if busy and overlap == 'replace' then cancel_job(previous, id) end
      accept(new_seq(), id, P .. 'b:' .. id, renew(terms_of(lane, target, priority, 0, slot, 0, max_attempts, callback)), key, body)
      place_accepted() -- at once, for the next slot may replace it
      call('HSET', sk, 'job', id, 'last', text(slot))
      previous = id
      fired = fired + 1
    end
  end
  out[#out + 1] = verdict
end
if expected ~= '' then
  call('HSET', sk, 'slot', text(next_slot))
  call('ZADD', P .. 'schedules', next_at, name)
end
local counts = { fired = fired, missed = missed, overlapped = overlapped }
for counter, n in pairs(counts) do
  if n > 0 then call('HINCRBY', P .. 'stats', 'schedule_' .. counter .. ':' .. name, n) end
end
commit()
return out
