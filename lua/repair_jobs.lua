-- Finds jobs that are not in the index where their record says, or no longer say where they stand, jobs without their
-- payload, and what is left of jobs without facts; mends them if asked to.
--
-- KEYS  1 prefix
-- ARGV  1 mend (0 or 1), then job ids
-- Returns  MessagePack, per finding 3: word, job id, detail
local mend = ARGV[1] == '1'
if not mend and ARGV[1] ~= '0' then return redis.error_reply('ERR repair_jobs: mend id…') end

-- What is left of a job whose facts are gone.
local function check_remains(id)
  local left = call('EXISTS', P .. 'j:' .. id, P .. 'b:' .. id, P .. 'r:' .. id, P .. 'e:' .. id)
  if left == 0 and not line_of(id) then return end
  found('remains', id)
  if not mend then return end
  call('UNLINK', P .. 'j:' .. id, P .. 'b:' .. id, P .. 'r:' .. id, P .. 'e:' .. id)
  call('HDEL', P .. 'state', id)
  lines[id] = false
end

local function state(id, job)
  found('state_lost', id, job.status)
  if mend then save(id, job) end
end

local function check_lane(id, job)
  if known_lane(job.lane) then return end
  found('lane_unknown', id, job.lane)
  LANES[#LANES + 1] = job.lane
  if not mend then return end
  call('HSET', P .. 'conf', 'lanes', table.concat(LANES, ','))
  drop_gist()
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

-- A job that waits must have what it is to be run with; where it runs, its dispatcher has it, and its record needs no
-- more than its facts.
local function check_body(id, job)
  local waits = job.status == 'pending' or STATUSES[job.status] == 'due'
  if not (waits or job.status == 'running') or call('EXISTS', P .. 'b:' .. id) == 1 then return end
  found('payload_lost', id)
  if not mend then return end
  call('SET', P .. 'b:' .. id, facts_of(job) .. '\n\n')
  if not waits then return end
  if job.status == 'pending' then
    unmake_ready(id, job.lane, job.target, job.key)
  else
    call('ZREM', P .. 'due', id)
    stand(job.status, job.lane, -1)
    unhold(job.target, job.key, id)
  end
  job.callback = '' -- its address went with the payload
  finish(id, job, 'dead', 'fatal', '', '{"type":"damaged","message":"its payload was lost"}')
end

local ids = {}
for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
read_lines(ids)
for i = 1, #ids do
  local id = ids[i]
  local job = read_job(id)
  if job then
    if job.unstated then state(id, job) end
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
