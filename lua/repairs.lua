-- Prepended, after the endings, to the scripts that repair: what a record must have, and where its job must be.
-- Each of them looks at some things as they stand at one instant, and changes them only if it is asked to mend.

may_flow = nil -- what conf says of flows may be wrong as well

local findings = {} -- per finding 3: a word (gateway/store/repair.py has the sentence), whose, and what of it
local function found(word, subject, detail)
  findings[#findings + 1] = { word, subject, detail or '' }
end

local LEASE_MS = 30000 -- a dispatcher that still holds a job renews its lease by then
local LOST_TARGET = 'unknown'
local STATUSES = { pending = true, scheduled = 'due', retrying = 'due', running = 'leases', dead = 'dead',
  succeeded = 'done', cancelled = 'done' }

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
    return job.status == 'scheduled' and job.run_at ~= '' and text(tonumber(job.run_at) * 1000) or now_us
  end
  return text(math.max(tonumber(job.updated) or 0, tonumber(job.started) or 0, tonumber(job.created)))
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

-- Where a job stands whose line is lost, by the index that it is in. One that was due or is over stays what it was; one
-- that ran is pending again, since nobody can prove that he holds it.
local function status_by_index(id, job)
  if call('ZSCORE', P .. place_of(job), id) then return 'pending' end
  if call('ZSCORE', P .. 'due', id) then return 'scheduled' end
  if call('ZSCORE', P .. 'done', id) then return 'succeeded' end
  if call('ZSCORE', P .. 'dead', id) or call('ZSCORE', P .. 'dead:' .. job.target, id) then return 'dead' end
  return 'pending'
end

-- A job as load() gives it, with what its line says or, where it lacks one that makes sense (`unstated`), its index;
-- nil if too little is left of it to be one.
local function read_job(id)
  local line = line_of(id)
  local garbled = line and not (STATUSES[match(line, STATE) or ''] and match(line, '^%a+|[^|]*|%d+|%d*|%d*|%d*|%a*|[^|]+|[^|]+')
    or sub(line, 1, #WAITS) == WAITS and match(line, '^%d+$', #WAITS + 1))
  if garbled then lines[id] = false end
  local job = load(id)
  if garbled then lines[id] = line end
  if not job then return nil end
  job.suspect = has_flag(job, 's')
  if garbled or not line then
    job.status = status_by_index(id, job)
    job.unstated = garbled or job.status ~= 'pending'
  end
  return job
end
