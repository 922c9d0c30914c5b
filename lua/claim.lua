-- Gives a dispatcher up to n jobs under a lease: first promotes what is due, then takes from the lanes in order,
-- by rank in each. A claim repeated with the same nonce gets the same jobs again, so a lost reply may be resent.
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id, 2 nonce, 3 n, 4 lease ms, 5 suspects allowed (0 or 1), 6 promote at most,
--       7 heartbeat ms, 8… per lane 3, in order: name, weight (0 for all: strict order), most ms its first job waits
--       before it goes ahead of every lane (0: as long as it takes)
-- Returns  1 us until the next due job (-1: none), 2 is there more to claim (0 or 1), 3 the time in ms, then per job 3: id,
--       what is new since it was submitted ('': nothing, else attempt, previous delay ms, when it became ready again in
--       ms and facts, with bars between them), body with its first facts
local HEARTBEAT_PART = 20 -- a heartbeat renewed within this part of itself is not renewed again

local dispatcher, nonce, dk
local n, lease_ms, suspects_left, promote_most, heartbeat_ms
local last             -- what the dispatcher's record says of its last claim: nonce, ids, seen, idle
local lanes, known, weights, weight_sum, patience
local taken, taken_n   -- the reply, and of how many jobs
local leases, ids      -- of the jobs taken
local bodies           -- id -> body, false if there is no such job
local news             -- has there come something to claim where the walk may have been already?
local budget           -- steps left
local goal             -- how many jobs there are to be in all once this lane is done with
local look_most        -- jobs of earlier times that may still be looked for
local passed_over      -- targets whose first job is a suspect that may not run now
local STARTED, FRESH, DEADLINE

-- Reads the arguments; the error if they are wrong.
local function read_args()
  dispatcher, nonce = args[1], args[2]
  n, lease_ms, suspects_left = whole(args[3], 0), whole(args[4], 1), whole(args[5], 0)
  promote_most, heartbeat_ms = whole(args[6], 0), whole(args[7], 1)
  if not (n and lease_ms and suspects_left and promote_most and heartbeat_ms) or find(nonce, '[|,\n]') or #args < 10 or (#args - 7) % 3 ~= 0 then
    return redis.error_reply('ERR claim: dispatcher nonce n lease_ms suspects promote_most heartbeat_ms [lane weight wait]…')
  end
  dk = P .. 'dispatcher:' .. dispatcher
end

local function add_lane(lane, weight, most_ms)
  if known[lane] or lane_paused(lane) then return end
  known[lane] = true
  lanes[#lanes + 1] = lane
  weights[lane] = weight
  patience[lane] = most_ms
  weight_sum = weight_sum + weight
end

local function read_lanes()
  lanes, known, weights, weight_sum, patience = {}, {}, {}, 0, {}
  for i = 8, #args, 3 do add_lane(args[i], tonumber(args[i + 1]) or 0, tonumber(args[i + 2]) or 0) end
  -- lanes that are no longer configured still drain, last
  for i = 1, #LANES do add_lane(LANES[i], 0, 0) end
end

local function begin_claim()
  taken, taken_n, leases, ids, bodies = { -1, 0, now_ms }, 0, {}, {}, {}
  news, budget, look_most, passed_over = false, 4 * n + 16, 2 * CHUNK, {}
  STARTED = '|' .. NOW .. '|'
  FRESH = 'running|1:' .. nonce .. '|1' .. STARTED .. '||' -- the line of a first attempt, up to its facts
  DEADLINE = text(now_ms + lease_ms)
end

local function reply(id, news, body)
  local at = 3 * taken_n + 3
  taken[at + 1], taken[at + 2], taken[at + 3] = id, news, body
  taken_n = taken_n + 1
end
local function answer(wake_us, more)
  taken[1], taken[2] = wake_us, more and 1 or 0
  return taken
end

-- Reads all that taking these jobs needs.
local function read_jobs(ids)
  read_lines(ids)
  local keys = {}
  for i = 1, #ids do keys[i] = P .. 'b:' .. ids[i] end
  for first = 1, #ids, CHUNK do
    local last = math.min(first + CHUNK - 1, #ids)
    local found = call('MGET', unpack(keys, first, last))
    for i = first, last do bodies[ids[i]] = found[i - first + 1] end
  end
end

local LINE = '^(%a+)|([^|]*)|(%d+)|%d*|(%d*)|(%d*)|(.*)$'

-- The answer to a claim that is made again: the jobs it got that are still its own.
local function repeat_claim()
  local had = {}
  for id in string.gmatch(last[2] or '', '[^,]+') do had[#had + 1] = id end
  read_jobs(had)
  for i = 1, #had do
    local status, token, attempt, previous, updated, facts = match(lines[had[i]] or '', LINE)
    if status == 'running' and token == attempt .. ':' .. nonce then
      reply(had[i], attempt .. '|' .. previous .. '|' .. updated .. '|' .. facts, bodies[had[i]] or '\n')
    end
  end
  return answer(0, false)
end

-- What is due goes to its lane at the back of its priority (an ordered key's retry keeps its rank: the key has
-- waited for it). A flow's timer only has its node looked at.
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

local WAITED = '^scheduled||0||||(%a*)|([^|]*)|([^|]*)|(.*|)(%d+)$' -- the line of a job that was submitted for later
local promoted -- lane -> flat list of rank and id: jobs that wait in no flow

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

local next_due_us -- of the first entry in `due`; -1: there is none
local function look_due()
  local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
  next_due_us = first[1] and tonumber(first[2]) or -1
  armed = false
end

local function promote()
  look_due()
  if next_due_us < 0 or next_due_us > now_us then return end
  armed = true
  local ids = call('ZRANGE', P .. 'due', '-inf', text(now_us), 'BYSCORE', 'LIMIT', 0, promote_most)
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

local function is_reference(member)
  return member == SUSPECTS or string.byte(member) == 126
end

-- Moves a plain job whose target has gained flows since it came into its flow, if that is what it is.
local function move(id)
  local job = load(id)
  if not job or not target_node(job.target) then return false end
  waiting(job.lane, job.target, -1)
  make_ready(id, job.lane, job.target, job.key, job.rank, has_flag(job, 's'))
  news = true
  return true
end

-- What keeps a job with flags from being taken: 'suspect' (not now), 'gone' (expired); nil if nothing does.
local function take_rare(id, lane, target, flags)
  local suspect = find(flags, 's', 1, true)
  if suspect and suspects_left <= 0 then return 'suspect' end
  if find(flags, 'x', 1, true) then
    local job = load(id)
    if tonumber(job.expires) <= now_ms then
      waiting(lane, target, -1)
      finish(id, job, 'dead', 'expired', '', '{"type":"expired","message":"not started before it expired"}')
      news = news or job.callback ~= '' -- it may have a callback
      return 'gone'
    end
  end
  if suspect then suspects_left = 0 end
end

-- Starts a job: 'taken', 'gone' (expired, or no record), 'moved' (into its flow), or 'suspect' (not now). `k`: the flow
-- it comes from.
local function take(id, lane, k)
  local body = bodies[id]
  if body == nil then
    body = call('GET', P .. 'b:' .. id)
    bodies[id] = body
  end
  if not body then return 'gone' end
  local line = line_of(id)
  local attempt, previous, updated, facts = 1, '', '', nil
  if line then
    local _, _, before, previous_ms, updated_ms, own = match(line, LINE)
    attempt, previous, updated, facts = tonumber(before) + 1, previous_ms, updated_ms, own
  end
  local flags, target = match(facts or body, '^(%a*)|([^|]*)')
  if not k and target_node(target) and (not find(flags, 's', 1, true) or suspects_left > 0) and move(id) then
    return 'moved'
  end
  if flags ~= '' then
    local verdict = take_rare(id, lane, target, flags)
    if verdict then return verdict end
  end
  waiting(lane, target, -1)
  local start = line and 'running|' .. attempt .. ':' .. nonce .. '|' .. attempt .. STARTED .. previous .. '|' .. updated .. '|'
    or FRESH
  write_line(id, start .. (facts or sub(body, 1, find(body, '\n', 1, true) - 1)))
  leases[2 * taken_n + 1] = DEADLINE
  leases[2 * taken_n + 2] = id
  ids[taken_n + 1] = id
  reply(id, line and attempt .. '|' .. previous .. '|' .. updated .. '|' .. facts or '', body)
  if followed then tell('started', id, lane, target, attempt) end
  if k then
    spend(k.target, k)
    -- half open: this is the one that tries
    if k.target.breaker > 0 and k.target.open_until > 0 then call('HSET', P .. 'fb:' .. target, 'probe', id) end
  end
  return 'taken'
end

-- Is every job of the target in its flow that came before it had limits and whose rank is at most this one? Puts those
-- there as far as the claim may still look for them.
local function is_gathered(t, lane, rank)
  local earlier = P .. 'earlier:' .. t.name
  local from = call('HGET', earlier, lane)
  while from and tonumber(from) < rank and look_most > 0 do
    local found = call('ZRANGE', P .. 'lane:' .. lane, '(' .. from, '+inf', 'BYSCORE', 'LIMIT', 0, CHUNK, 'WITHSCORES')
    look_most = look_most - CHUNK
    local gone = {}
    for i = 1, #found, 2 do
      if not is_reference(found[i]) and move(found[i]) then gone[#gone + 1] = found[i] end
    end
    call_many('ZREM', P .. 'lane:' .. lane, gone)
    from = #found == 2 * CHUNK and found[#found]
    if from then
      call('HSET', earlier, lane, from)
    else
      call('HDEL', earlier, lane)
      t.earlier = t.earlier - 1
      touch_target(t)
    end
  end
  return not from or tonumber(from) >= rank
end

-- The key that is served next of a target with these keys in its ring: the first. While older jobs of that key may be
-- in the lane still it is the one whose first job is the oldest.
local function next_key(t, lane, ring)
  if t.earlier == 0 or not ring[2] then return ring[1] end
  local head = call('ZRANGE', queue_of(lane, key_node(t, ring[1])), 0, 0, 'WITHSCORES')
  if is_gathered(t, lane, tonumber(head[2])) then return ring[1] end
  return call('ZRANGE', P .. 'heads:' .. lane .. ':' .. t.name, 0, 0)[1]
end

-- How many more jobs of a target may start in this claim.
local function allowance(t)
  local most = goal - taken_n
  local concurrency = concurrency_of(t)
  if concurrency > 0 then most = math.min(most, concurrency - t.running) end
  if t.interval > 0 then
    most = math.min(most, floor((now_us - math.max(t.tat, now_us) + (t.burst - 1) * t.interval) / t.interval) + 1)
  end
  if t.quota > 0 then most = math.min(most, t.quota - t.used) end
  return math.max(1, most)
end

-- A run of a target's jobs without a key, while none of its keys waits: those of rank up to `limit`.
local function serve_keyless(t, lane, limit)
  local k = key_node(t, '')
  local queue = queue_of(lane, k)
  local found = call('ZRANGE', queue, '-inf', limit, 'BYSCORE', 'LIMIT', 0, allowance(t))
  read_jobs(found)
  local out = 0
  for i = 1, #found do
    budget = budget - 1
    local verdict = take(found[i], lane, k)
    if verdict == 'suspect' then
      passed_over[t.name] = true
      break
    end
    out = i
  end
  if out > 0 then call('ZPOPMIN', queue, out) end
  queue_changed(k, lane)
  settle_key(k)
end

-- The first job of the key whose turn it is. An expired one does not spend the turn; after a job the key goes to the
-- back of its next job's class.
local function serve_key(t, lane, name)
  local k = key_node(t, name)
  local queue = queue_of(lane, k)
  -- looked at again, since limits of keys may have changed, or a quota's window begun, after it came into the ring
  local head = key_blocked(k) and {} or call('ZRANGE', queue, 0, 0)
  local verdict = 'gone'
  if head[1] then
    verdict = take(head[1], lane, k)
    if verdict == 'suspect' then
      passed_over[t.name] = true
      return
    end
    call('ZREM', queue, head[1])
  end
  if verdict == 'taken' then
    -- and is placed anew, at the back
    call('ZREM', P .. 'ring:' .. lane .. ':' .. t.name, name)
  end
  queue_changed(k, lane)
  settle_key(k)
end

-- Reads the first jobs of a key's queue, those behind what this run has taken.
local function read_queue(q, size)
  call_many('ZREM', q.key, q.gone)
  q.gone = {}
  local found = call('ZRANGE', q.key, 0, size - 1, 'WITHSCORES')
  q.ids, q.ranks, q.at, q.size = {}, {}, 1, size
  for i = 1, #found, 2 do
    q.ids[#q.ids + 1] = found[i]
    q.ranks[#q.ranks + 1] = found[i + 1]
  end
  q.whole = #q.ids < size
end

-- The queues of the keys in a ring, in its order, and what taking their first jobs needs.
local function read_ring(t, lane, names, most)
  local each = math.ceil(most / #names)
  local concurrency = t.ordered == 1 and 1 or t.key_concurrency
  if concurrency > 0 then each = math.min(each, concurrency) end
  if t.key_interval > 0 then each = math.min(each, t.key_burst) end
  local queues, first = {}, {}
  for i = 1, #names do
    local q = { k = key_node(t, names[i]), gone = {} }
    q.key = queue_of(lane, q.k)
    read_queue(q, each + 1)
    queues[i] = q
  end
  for j = 1, each do
    for i = 1, #queues do
      if #first < most and queues[i].ids[j] then first[#first + 1] = queues[i].ids[j] end
    end
  end
  read_jobs(first)
  return queues
end

-- Where a key that was served stands in the ring from now on; false where it has no more that may run. `ring` has
-- queues by turn, all of them if it is `whole`.
local function place_served(t, q, ring, whole)
  if q.at > #q.ids and not q.whole then read_queue(q, q.size) end
  local rank = q.ranks[q.at]
  if not rank or key_blocked(q.k) then return false end
  t.turn = t.turn + 1
  local turn = class_of(rank) * SPAN + t.turn
  local at = #ring + 1
  while at > 1 and ring[at - 1].turn > turn do at = at - 1 end
  if whole or at <= #ring then table.insert(ring, at, q) end
  q.turn, q.turned = turn, true
  return true
end

-- Puts back what a run has changed: the keys with more that may run all at once, the others each by itself.
local function end_ring(t, lane, served)
  local path = lane .. ':' .. t.name
  local ring, heads = {}, {}
  for i = 1, #served do
    local q = served[i]
    call_many('ZREM', q.key, q.gone)
    touch_key(q.k)
    if q.ready then
      ring[#ring + 1], ring[#ring + 2] = q.turn, q.k.name
      heads[#heads + 1], heads[#heads + 2] = q.ranks[q.at], q.k.name
    else
      -- one whose next job is gone has had its turn, if it was served before that
      if q.turned then call('ZADD', P .. 'ring:' .. path, q.turn, q.k.name) end
      queue_changed(q.k, lane)
      settle_key(q.k)
    end
  end
  call_many('ZADD', P .. 'ring:' .. path, ring)
  call_many('ZADD', P .. 'heads:' .. path, heads)
  lane_changed(t, lane)
end

-- Turns of a target that has the rest of the lane for itself: of its keys in the ring's order, a job each, until no more
-- may run or something happens that the ring does not tell of.
local function serve_ring(t, lane)
  local most = allowance(t)
  local found = call('ZRANGE', P .. 'ring:' .. lane .. ':' .. t.name, 0, most - 1, 'WITHSCORES')
  local names, whole = {}, #found < 2 * most
  for i = 1, #found, 2 do names[#names + 1] = found[i] end
  local ring, served = read_ring(t, lane, names, most), {}
  for i = 1, #ring do ring[i].turn = tonumber(found[2 * i]) end
  while ring[1] and taken_n < goal and budget > 0 and not news and not target_blocked(t) do
    budget = budget - 1
    local q = table.remove(ring, 1)
    if not q.served then served[#served + 1], q.served = q, true end
    -- looked at again, since limits of keys may have changed, or a quota's window begun, after it came into the ring
    local id = not key_blocked(q.k) and q.ids[q.at]
    local verdict = id and take(id, lane, q.k)
    if verdict == 'suspect' then
      passed_over[t.name], q.ready = true, true
      break
    end
    if id then
      q.gone[#q.gone + 1] = id
      q.at = q.at + 1
    end
    q.ready = verdict == 'taken' and place_served(t, q, ring, whole)
    if id and verdict ~= 'taken' then break end
  end
  end_ring(t, lane, served)
end

-- One turn of a target: its rank in the lane afterwards, nil if it has no more to give now.
local function serve_target(t, lane, limit)
  budget = budget - 1
  if passed_over[t.name] or target_blocked(t) then return nil end
  local ring = call('ZRANGE', P .. 'ring:' .. lane .. ':' .. t.name, 0, 1)
  if #ring == 0 then return nil end
  if ring[1] == '' and #ring == 1 then
    serve_keyless(t, lane, limit)
  elseif limit == '+inf' and t.earlier == 0 then
    serve_ring(t, lane)
  else
    local name = next_key(t, lane, ring)
    if news then return nil end
    serve_key(t, lane, name)
  end
  if passed_over[t.name] or target_blocked(t) then return nil end
  local rank = call('ZRANGE', P .. 'heads:' .. lane .. ':' .. t.name, 0, 0, 'WITHSCORES')[2]
  return rank and tonumber(rank)
end

-- The first suspect of a lane, if one may run: the rank of the next one then; nil and true if none may.
local function serve_suspect(lane)
  budget = budget - 1
  if suspects_left <= 0 then return nil, true end
  local first = call('ZPOPMIN', P .. 'suspect:' .. lane)[1]
  if first then take(first, lane) end
  place_suspects(lane)
  local rank = call('ZSCORE', P .. 'lane:' .. lane, SUSPECTS)
  return rank and tonumber(rank)
end

-- What a reference of a lane stands for: its rank afterwards; nil if there is no more now, and then whether it stays.
local function serve_reference(member, lane, limit)
  if member == SUSPECTS then return serve_suspect(lane) end
  local t = target_node(string.sub(member, 2))
  if not t then return nil, true end
  local rank = serve_target(t, lane, limit)
  lane_changed(t, lane)
  return rank, passed_over[t.name]
end

-- Some entries of a lane by rank, from the `first` on; `whole`: there are no more.
local function window_of(lane, first, size)
  local found = call('ZRANGE', P .. 'lane:' .. lane, first, first + size - 1)
  local plain = true
  for i = 1, #found do
    local byte = string.byte(found[i])
    if byte == 126 or byte == 33 then
      plain = false
      break
    end
  end
  -- ranks matter to references alone, and cost more than the rest
  if plain then return { members = found, ranks = NONE, at = 1, whole = #found < size } end
  found = call('ZRANGE', P .. 'lane:' .. lane, first, first + size - 1, 'WITHSCORES')
  local members, ranks = {}, {}
  for i = 1, #found, 2 do
    members[#members + 1] = found[i]
    ranks[#ranks + 1] = tonumber(found[i + 1])
  end
  return { members = members, ranks = ranks, at = 1, whole = #members < size }
end

-- Puts a reference that has served before where its new rank belongs among the entries still to be visited.
local function put_back(window, member, rank)
  local members, ranks, at = window.members, window.ranks, window.at
  while at <= #members and ranks[at] < rank do at = at + 1 end
  if at <= #members or window.whole then
    table.insert(members, at, member)
    table.insert(ranks, at, rank)
  end
end

-- Reads at once what taking the plain jobs of a window needs.
local function read_window(window, most)
  local plain = {}
  for i = 1, #window.members do
    if #plain >= most then break end
    local member = window.members[i]
    if not is_reference(member) and bodies[member] == nil then plain[#plain + 1] = member end
  end
  if #plain > 0 then read_jobs(plain) end
end

-- Visits a window's entries in turn; returns how many of them, all at its front, stay where they are.
local function visit(window, lane)
  local members, ranks = window.members, window.ranks
  local kept, gone = 0, {}
  while window.at <= #members and taken_n < goal and budget > 0 and not news do
    local member, limit = members[window.at], ranks[window.at + 1] or (window.whole and '+inf') or ranks[window.at]
    window.at = window.at + 1
    if is_reference(member) then
      local rank, stays = serve_reference(member, lane, limit)
      if rank then put_back(window, member, rank) elseif stays then kept = kept + 1 end
    else
      budget = budget - 1
      gone[#gone + 1] = member
      if take(member, lane) == 'moved' then
        -- the others like it too, since the lane is looked at anew now, and each look has its price
        for at = window.at, #members do
          if not is_reference(members[at]) and move(members[at]) then
            budget = budget - 1
            gone[#gone + 1] = members[at]
          end
        end
      end
    end
  end
  call_many('ZREM', P .. 'lane:' .. lane, gone)
  return kept
end

-- Takes from one lane, by rank, until `goal` jobs are taken in all. The walk keeps a window of the lane in hand and
-- moves a reference in it as its rank changes.
local function walk(lane, upto)
  local kept = 0
  goal = upto
  news = false
  while taken_n < goal and budget > 0 do
    restore() -- what was served so far stands in the lane where it belongs now
    local window = window_of(lane, kept, goal - taken_n + 1)
    read_window(window, goal - taken_n)
    kept = kept + visit(window, lane)
    if news then
      kept, news = 0, false
    elseif window.whole and window.at > #window.members then
      break
    end
  end
end

-- Lanes whose first job has waited too long go first, the least urgent lane first: strict order must starve nobody.
local function serve_overdue()
  for i = #lanes, 1, -1 do
    local most_ms = patience[lanes[i]]
    while most_ms > 0 and taken_n < n and budget > 0 and waited_ms(lanes[i]) > most_ms do
      local before = taken_n
      walk(lanes[i], before + 1)
      restore()
      if taken_n == before then break end
    end
  end
end

-- Each lane's share of the claim by its weight. What is left over of a share is kept as credit, so that small claims
-- add up to the weights too; a lane without work keeps none.
local function serve_weighted()
  local present, sum = {}, 0
  for i = 1, #lanes do
    if weights[lanes[i]] > 0 and call('EXISTS', P .. 'lane:' .. lanes[i]) == 1 then
      present[#present + 1] = lanes[i]
      sum = sum + weights[lanes[i]]
    end
  end
  local credits = call('HGETALL', P .. 'credit')
  local credit = {}
  for i = 1, #credits, 2 do credit[credits[i]] = tonumber(credits[i + 1]) end
  call('DEL', P .. 'credit')
  local free = n - taken_n
  for i = 1, #present do
    local lane = present[i]
    local due = math.min((credit[lane] or 0) + free * weights[lane] / sum, 2 * n)
    local before = taken_n
    if due >= 1 then walk(lane, math.min(n, before + floor(due))) end
    call('HSET', P .. 'credit', lane, string.format('%.6f', due - (taken_n - before)))
  end
end

-- Is there anything in these lanes?
local function has_work()
  local keys = {}
  for i = 1, #lanes do keys[i] = P .. 'lane:' .. lanes[i] end
  return #keys > 0 and call('EXISTS', unpack(keys)) > 0
end

-- Writes what the dispatcher's record says of this claim, and renews its heartbeat where the last one is not of just
-- now. `idle`: '1' if it may be among the idle, whom a wake-up takes out by itself.
local function show_life(idle)
  local fields = {}
  if taken_n > 0 then fields = { 'nonce', nonce, 'ids', table.concat(ids, ',') } end
  if idle ~= last[4] then
    fields[#fields + 1] = 'idle'
    fields[#fields + 1] = idle
  end
  local since_ms = now_ms - (tonumber(last[3]) or 0)
  local renewed = since_ms < 0 or since_ms >= heartbeat_ms / HEARTBEAT_PART
  if renewed then
    fields[#fields + 1] = 'seen'
    fields[#fields + 1] = NOW
  end
  if #fields > 0 then call('HSET', dk, unpack(fields)) end
  if not renewed then return end
  call('PEXPIRE', dk, heartbeat_ms)
  call('ZADD', P .. 'dispatchers', now_ms + heartbeat_ms, dispatcher)
end

return function()
  local fault = read_args()
  if fault then return fault end
  begin_claim()
  last = call('HMGET', dk, 'nonce', 'ids', 'seen', 'idle')
  if last[1] == nonce then return repeat_claim() end
  read_lanes()
  promote()
  serve_overdue()
  if weight_sum > 0 then serve_weighted() end
  for i = 1, #lanes do
    if taken_n >= n or budget <= 0 then break end
    walk(lanes[i], n)
  end

  call_many('ZADD', P .. 'leases', leases)
  restore()
  if armed then look_due() end
  local wake_us = next_due_us < 0 and -1 or math.max(0, next_due_us - now_us)
  local short = taken_n < n and budget > 0
  local more = not short and has_work()
  if short then
    if wake_us ~= 0 then call('ZADD', P .. 'idle', now_ms, dispatcher) end
  elseif last[4] ~= '0' then
    call('ZREM', P .. 'idle', dispatcher)
  end
  show_life(short and '1' or '0')
  woken = more
  commit()
  bodies = NONE -- they may be large, and the next claim may be far
  return answer(wake_us, more)
end
