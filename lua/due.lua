-- Prepended to the claim, after the endings: what is due comes to be pending.

local WAITED = '^scheduled||0||||(%a*)|([^|]*)|([^|]*)|(.*|)(%d+)$' -- the line of a job that was submitted for later
local promoted    -- lane -> flat list of rank and id: jobs that wait in no flow
local next_due_us -- of the first entry in `due`; -1: there is none

-- A job goes to its lane at the back of its priority (an ordered key's retry keeps its rank: the key has waited for it).
local function promote_job(id, seq)
  local job = load(id)
  if not job then return end
  local t = target_node(job.target)
  if not (t and t.ordered == 1 and job.key ~= '' and job.status == 'retrying') then
    job.rank = text(class_of(job.rank) * SPAN + seq)
    add_flag(job, 'o')
  end
  stand(job.status, job.lane, -1)
  job.status, job.updated = 'pending', NOW
  save(id, job)
  unhold(job.target, job.key, id)
  make_ready(id, job.lane, job.target, job.key, job.rank, has_flag(job, 's'))
end

-- The same for most jobs, at half the cost: false where it is none of them.
local function promote_plain(id, seq)
  local flags, target, lane, rest, rank = match(line_of(id) or '', WAITED)
  if not flags or find(flags, 's', 1, true) or target_node(target) then return false end
  rank = text(class_of(rank) * SPAN + seq)
  if not find(flags, 'o', 1, true) then flags = flags .. 'o' end
  write_line(id, 'pending||0|||' .. NOW .. '|' .. flags .. '|' .. target .. '|' .. lane .. '|' .. rest .. rank)
  stand('scheduled', lane, -1)
  waiting(lane, target, 1)
  local list = promoted[lane]
  if not list then list = {}; promoted[lane] = list end
  list[#list + 1] = rank
  list[#list + 1] = id
  return true
end

-- A flow's timer only has its node looked at.
local function promote_timer(path)
  local target, key = string.match(path, '^([^:]+):?(.*)$')
  local t = target_node(target)
  if not t then return end
  if key == '' then
    t.timer = 0
    touch_target(t)
  else
    local k = key_node(t, key)
    k.timer = 0
    touch_key(k)
  end
end

local function look_due()
  local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
  next_due_us = first[1] and tonumber(first[2]) or -1
  armed = false
end

-- Promotes what is due, at most so many.
local function promote(most)
  look_due()
  if next_due_us < 0 or next_due_us > now_us then return end
  armed = true
  local ids = call('ZRANGE', P .. 'due', '-inf', text(now_us), 'BYSCORE', 'LIMIT', 0, most)
  if #ids == 0 then return end
  call_many('ZREM', P .. 'due', ids)
  local seq = call('INCRBY', P .. 'seq', #ids) - #ids
  read_lines(ids)
  promoted = {}
  for i = 1, #ids do
    if string.byte(ids[i]) == 126 then
      promote_timer(string.sub(ids[i], 2))
    elseif not promote_plain(ids[i], seq + i) then
      promote_job(ids[i], seq + i)
    end
  end
  for lane, list in pairs(promoted) do call_many('ZADD', P .. 'lane:' .. lane, list) end
end
