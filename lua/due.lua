-- Prepended to the claim, after the endings: what is due comes to be pending.

local LATER = '^(scheduled||0||||(%a*)|([^|]*)|([^|]*)|.*|)(%d+)$' -- the line of a job that was submitted for later
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

-- The same for most jobs, at a quarter of the cost: for a run of them, from that one on, whose lines differ in their ranks
-- alone. How many they are; 0 where the first is none of them, or waits in a flow.
local function promote_alike(ids, first, seq)
  local head, flags, target, lane = match(lines[ids[first]] or '', LATER)
  if not head or find(flags, 's', 1, true) or target_node(target) then return 0 end
  local list = promoted[lane]
  if not list then list = { n = 0 }; promoted[lane] = list end
  local at, n, from, length = first, list.n, written_n, #head
  while true do
    local id = ids[at]
    local line = lines[id]
    local rank = line and sub(line, 1, length) == head and tonumber(sub(line, length + 1))
    if not rank then break end
    local place = format(WHOLE, rank - rank % SPAN + seq + at)
    line = WAITS .. place
    lines[id] = line
    written[from + 1], written[from + 2], from = id, line, from + 2
    list[n + 1], list[n + 2], n = place, id, n + 2
    at = at + 1
  end
  list.n, written_n = n, from
  stand('scheduled', lane, first - at)
  waiting(lane, target, at - first)
  return at - first
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
  local first = call('ZRANGE', K.due, 0, 0, 'WITHSCORES')
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
  local i = 1
  while i <= #ids do
    local n = 1
    if string.byte(ids[i]) == 126 then
      promote_timer(sub(ids[i], 2))
    else
      n = promote_alike(ids, i, seq)
      if n == 0 then
        promote_job(ids[i], seq + i)
        n = 1
      end
    end
    i = i + n
  end
  for lane, list in pairs(promoted) do call_many('ZADD', P .. 'lane:' .. lane, list) end
end
