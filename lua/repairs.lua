-- Prepended, after the endings, to the scripts that repair: what a record must have, and where its job must be.
-- Each of them looks at some things as they stand at one instant, and changes them only if it is asked to mend.

local findings = {} -- per finding 3: a word (gateway/store/repair.py has the sentence), whose, and what of it
local function found(word, subject, detail)
  findings[#findings + 1] = { word, subject, detail or '' }
end

local LEASE_MS = 30000     -- a dispatcher that still holds a job renews its lease by then
local LOST_TARGET = 'unknown'
local LOST_MAX = 5
local FIELDS = { 'status', 'lane', 'target', 'rank', 'attempt', 'max', 'created', 'key', 'suspect', 'updated', 'started',
  'callback', 'token', 'run_at' }
local NEEDED = 7 -- the first of them, which every record has
local STATUSES = { pending = true, scheduled = 'due', retrying = 'due', running = 'leases', dead = 'dead',
  succeeded = 'done', cancelled = 'done' }

-- The facts of a record, `lacks` the first that it must have and has not; nil if there is no record.
local function read_job(id)
  local v = call('HMGET', P .. 'j:' .. id, unpack(FIELDS))
  local job
  for i = 1, #FIELDS do
    if v[i] then
      job = job or {}
      job[FIELDS[i]] = v[i]
    end
  end
  if not job then return nil end
  for i = 1, NEEDED do
    if not job[FIELDS[i]] then job.lacks = job.lacks or FIELDS[i] end
  end
  if not STATUSES[job.status] then job.lacks = job.lacks or 'status' end
  job.key = job.key or ''
  return job
end

-- The index, without the prefix, that a job must be in.
local function place_of(job)
  if job.status ~= 'pending' then return STATUSES[job.status] end
  if target_node(job.target) then return 'flow:' .. path_of(job.lane, job.target) .. ':' .. job.key end
  return (job.suspect and 'suspect:' or 'lane:') .. job.lane
end

-- Where a job waits that came before its target had flows: it may stay there, a claim moves it.
local function earlier_place_of(job)
  return job.status == 'pending' and target_node(job.target) and (job.suspect and 'suspect:' or 'lane:') .. job.lane
end

-- The score of a job in its index, as well as its record tells it.
local function score_of(job)
  if job.status == 'pending' then return job.rank end
  if job.status == 'running' then return now_ms + LEASE_MS end
  if job.status == 'scheduled' or job.status == 'retrying' then
    return job.status == 'scheduled' and job.run_at and text(tonumber(job.run_at) * 1000) or now_us
  end
  return text(math.max(tonumber(job.updated or 0), tonumber(job.started or 0), tonumber(job.created)))
end

-- A UUIDv7 begins with its time in ms.
local function created_of(id)
  local high, low = string.match(id, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-')
  return high and text(tonumber(high .. low, 16)) or NOW
end

local function known_lane(lane)
  for i = 1, #LANES do
    if LANES[i] == lane then return true end
  end
  return false
end

-- The lane of a job that no longer tells its own.
local function some_lane()
  return known_lane('default') and 'default' or LANES[#LANES] or 'default'
end

-- Ends a job whose record no longer says enough to run it. It goes to the dead letters with what is left of it, so that
-- someone may look.
local function bury_lost(id, lane, target, message)
  call('HSET', P .. 'j:' .. id, 'lane', lane, 'target', target, 'rank', text(100 * SPAN + new_seq()), 'attempt', 0,
    'max', LOST_MAX, 'created', created_of(id))
  finish(id, { lane = lane, target = target, attempt = 0 }, 'dead', 'fatal', '',
    '{"type":"damaged","message":"' .. message .. '"}')
end
