-- Finds jobs that are not in the index where their record says, records that lack what they need, jobs without their
-- payload, and what is left of jobs without a record; mends them if asked to.
--
-- KEYS  1 prefix
-- ARGV  1 mend (0 or 1), then job ids
-- Returns  MessagePack, per finding 3: word, job id, detail
local mend = ARGV[1] == '1'
if not mend and ARGV[1] ~= '0' then return redis.error_reply('ERR repair_jobs: mend id…') end

-- What is left of a job whose record is gone, and which is in no index either.
local function check_remains(id)
  local body, result = call('EXISTS', P .. 'b:' .. id) == 1, call('EXISTS', P .. 'r:' .. id) == 1
  if body and not result then
    found('record_lost', id)
    if mend then bury_lost(id, some_lane(), LOST_TARGET, 'its record was lost, its payload is kept') end
  elseif body or result or call('EXISTS', P .. 'e:' .. id) == 1 then
    found('remains', id)
    if mend then call('UNLINK', P .. 'b:' .. id, P .. 'r:' .. id, P .. 'e:' .. id) end
  end
end

-- The status of a job that no longer tells it, by the index that it is in; dead if it is in none.
local function status_of(id, job)
  if job.lane and job.target then
    for _, suspect in ipairs({ false, true }) do
      local index = place_of({ status = 'pending', lane = job.lane, target = job.target, key = job.key, suspect = suspect })
      if call('ZSCORE', P .. index, id) then return 'pending' end
    end
  end
  if call('ZSCORE', P .. 'leases', id) then return 'running' end
  if call('ZSCORE', P .. 'due', id) then return tonumber(job.attempt or 0) > 0 and 'retrying' or 'scheduled' end
  return call('ZSCORE', P .. 'done', id) and 'succeeded' or 'dead'
end

-- Gives a record what it lacks, in memory and, to mend, in Redis. Nobody can run a job without a target.
local function complete(id, job)
  found('incomplete', id, job.lacks)
  local was = STATUSES[job.status] and job.status or status_of(id, job)
  local ended = STATUSES[was] == 'done' or was == 'dead' and call('ZSCORE', P .. 'dead', id)
  job.status = (ended or job.target) and was or 'dead'
  job.lane, job.target = job.lane or some_lane(), job.target or LOST_TARGET
  job.attempt, job.max, job.created = job.attempt or 0, job.max or LOST_MAX, job.created or created_of(id)
  if not job.rank then job.rank = text(100 * SPAN + (mend and new_seq() or 0)) end
  if not mend then return end
  call('HSET', P .. 'j:' .. id, 'status', job.status, 'lane', job.lane, 'target', job.target, 'rank', job.rank,
    'attempt', job.attempt, 'max', job.max, 'created', job.created)
  if job.status == 'dead' and not ended then
    call('HSET', P .. 'j:' .. id, 'reason', 'fatal')
    bump('dead', job.lane, job.target)
  end
end

local function check_lane(id, job)
  if known_lane(job.lane) then return end
  found('lane_unknown', id, job.lane)
  LANES[#LANES + 1] = job.lane
  if mend then call('HSET', P .. 'conf', 'lanes', table.concat(LANES, ',')) end
end

local function place(index, id, score)
  if mend then call('ZADD', P .. index, score, id) end
end

local function check_place(id, job)
  local index = place_of(job)
  local score = call('ZSCORE', P .. index, id)
  local earlier = not score and earlier_place_of(job)
  if earlier then
    score = call('ZSCORE', P .. earlier, id)
    if score then index = earlier end
  end
  local own = job.status == 'dead' and 'dead:' .. job.target
  local own_score = own and call('ZSCORE', P .. own, id)
  if not score then
    found('unplaced', id, index)
    place(index, id, own_score or score_of(job))
  elseif job.status == 'pending' and tonumber(score) ~= tonumber(job.rank) then
    found('misranked', id, index)
    place(index, id, job.rank)
  end
  if own and not own_score then
    found('unplaced', id, own)
    place(own, id, score or score_of(job))
  end
end

local seq = tonumber(call('GET', P .. 'seq') or 0)
local function check_seq(id, job)
  local own = tonumber(job.rank) - class_of(job.rank) * SPAN
  if own <= seq then return end
  found('seq_behind', id, text(own))
  seq = own
  if mend then call('SET', P .. 'seq', text(own)) end
end

-- A job that waits must have what it is to be run with; where it runs, its dispatcher has it.
local function check_body(id, job)
  local waits = job.status == 'pending' or STATUSES[job.status] == 'due'
  if not waits or call('EXISTS', P .. 'b:' .. id) == 1 then return end
  found('payload_lost', id)
  if not mend then return end
  if job.status == 'pending' then
    unmake_ready(id, job.lane, job.target, job.key)
  else
    call('ZREM', P .. 'due', id)
    unhold(job.target, job.key, id)
  end
  -- its callback's address went with it
  finish(id, { lane = job.lane, target = job.target, attempt = job.attempt }, 'dead', 'fatal', '',
    '{"type":"damaged","message":"its payload was lost"}')
end

for i = 2, #ARGV do
  local id = ARGV[i]
  local job = read_job(id)
  if job then
    if job.lacks then complete(id, job) end
    check_lane(id, job)
    check_seq(id, job)
    check_place(id, job)
    check_body(id, job)
  else
    check_remains(id)
  end
end
if mend then commit() end
return cmsgpack.pack(findings)
