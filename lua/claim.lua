-- Gives a dispatcher up to n jobs under a lease: first promotes what is due, then takes from the lanes in order,
-- by rank in each. A claim repeated with the same nonce gets the same jobs again, so a lost reply may be resent.
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id, 2 nonce, 3 n, 4 lease ms, 5 suspects allowed (0 or 1), 6 promote at most,
--       7 heartbeat ms, 8… per lane 3, in order: name, weight (0 for all: strict order), most ms its first job waits
--       before it goes ahead of every lane (0: as long as it takes)
-- Returns  MessagePack: 1 us until the next due job (-1: none), 2 is there more to claim, 3 per job 11: id, attempt,
--       max attempts, target, lane, key, previous delay ms, created ms, ms it was ready, suspect, body
local dispatcher, nonce = ARGV[1], ARGV[2]
local n, lease_ms, suspects_left = whole(ARGV[3], 0), whole(ARGV[4], 1), whole(ARGV[5], 0)
local promote_most, heartbeat_ms = whole(ARGV[6], 0), whole(ARGV[7], 1)
if not (n and lease_ms and suspects_left and promote_most and heartbeat_ms) or #ARGV < 10 or (#ARGV - 7) % 3 ~= 0 then
  return redis.error_reply('ERR claim: dispatcher nonce n lease_ms suspects promote_most heartbeat_ms [lane weight wait]…')
end
local dk = P .. 'dispatcher:' .. dispatcher

local lanes, known = {}, {}
local weights, weight_sum, patience = {}, 0, {}
local function add_lane(lane, weight, most_ms)
  if known[lane] or lane_paused(lane) then return end
  known[lane] = true
  lanes[#lanes + 1] = lane
  weights[lane] = weight
  patience[lane] = most_ms
  weight_sum = weight_sum + weight
end
for i = 8, #ARGV, 3 do add_lane(ARGV[i], tonumber(ARGV[i + 1]) or 0, tonumber(ARGV[i + 2]) or 0) end
-- lanes that are no longer configured still drain, last
for i = 1, #LANES do add_lane(LANES[i], 0, 0) end

local taken = {}
local bodies = {}
local function reply(id, attempt, max_attempts, target, lane, key, previous, created, updated, suspect)
  taken[#taken + 1] = { id, attempt, tonumber(max_attempts), target, lane, key or '', tonumber(previous or 0),
    tonumber(created), now_ms - (updated or created), suspect and true or false, '' }
  bodies[#bodies + 1] = P .. 'b:' .. id
end
local function answer(wake_us, more)
  for first = 1, #taken, CHUNK do
    local last = math.min(first + CHUNK - 1, #taken)
    local found = call('MGET', unpack(bodies, first, last))
    for i = first, last do taken[i][11] = found[i - first + 1] or '\n' end
  end
  return cmsgpack.pack({ wake_us, more, taken })
end

local last = call('HMGET', dk, 'nonce', 'ids')
if last[1] == nonce then
  for id in string.gmatch(last[2] or '', '[^,]+') do
    local v = call('HMGET', P .. 'j:' .. id, 'attempt', 'max', 'target', 'lane', 'key', 'previous', 'created',
      'updated', 'suspect', 'status', 'token')
    if v[10] == 'running' and v[11] == v[1] .. ':' .. nonce then reply(id, tonumber(v[1]), unpack(v, 2, 9)) end
  end
  return answer(0, false)
end

-- What is due goes to its lane at the back of its priority (an ordered key's retry keeps its rank: the key has
-- waited for it). A flow's timer only has its node looked at.
local function promote_job(id, seq)
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'lane', 'rank', 'suspect', 'target', 'key', 'status')
  if not v[1] then return end
  local t = target_node(v[4])
  local rank = v[2]
  if not (t and t.ordered == 1 and v[5] and v[6] == 'retrying') then rank = text(class_of(rank) * SPAN + seq) end
  call('HSET', jk, 'status', 'pending', 'rank', rank, 'updated', NOW, 'more', 1)
  unhold(v[4], v[5] or '', id)
  make_ready(id, v[1], v[4], v[5] or '', rank, v[3])
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

local function promote()
  local ids = call('ZRANGE', P .. 'due', '-inf', text(now_us), 'BYSCORE', 'LIMIT', 0, promote_most)
  if #ids == 0 then return end
  call_many('ZREM', P .. 'due', ids)
  local seq = call('INCRBY', P .. 'seq', #ids) - #ids
  for i = 1, #ids do
    if string.byte(ids[i]) == 126 then
      promote_timer(string.sub(ids[i], 2))
    else
      promote_job(ids[i], seq + i)
    end
  end
end

local leases = {}
local ids = {}

local news = false -- has there come something to claim where the walk may have been already?

-- Moves a plain job whose target has gained flows since it came into its flow, if that is what it is.
local function move(id)
  local v = call('HMGET', P .. 'j:' .. id, 'lane', 'target', 'key', 'rank', 'suspect')
  if not v[1] or not target_node(v[2]) then return false end
  waiting(v[1], v[2], -1)
  make_ready(id, v[1], v[2], v[3] or '', v[4], v[5])
  news = true
  return true
end

-- Starts a job: 'taken', 'gone' (expired, or no record), 'moved' (into its flow), or 'suspect' (not now). `k`: the flow
-- it comes from.
local function take(id, lane, k)
  local jk = P .. 'j:' .. id
  local v = call('HMGET', jk, 'attempt', 'max', 'target', 'created', 'more')
  if not v[1] then return 'gone' end
  local target = v[3]
  local key, previous, suspect, updated, expires, callback
  if v[5] then
    key, previous, suspect, updated, expires, callback =
      unpack(call('HMGET', jk, 'key', 'previous', 'suspect', 'updated', 'expires', 'callback'))
  end
  if suspect and suspects_left <= 0 then return 'suspect' end
  if not k and target_node(target) and move(id) then return 'moved' end
  waiting(lane, target, -1)
  if expires and tonumber(expires) <= now_ms then
    finish(id, { lane = lane, target = target, attempt = v[1], callback = callback or nil }, 'dead', 'expired', '',
      '{"type":"expired","message":"not started before it expired"}')
    news = news or callback -- it may have a callback
    return 'gone'
  end
  local attempt = tonumber(v[1]) + 1
  if suspect then suspects_left = 0 end
  call('HSET', jk, 'status', 'running', 'attempt', attempt, 'token', attempt .. ':' .. nonce, 'started', NOW)
  leases[#leases + 1] = now_ms + lease_ms
  leases[#leases + 1] = id
  ids[#ids + 1] = id
  reply(id, attempt, v[2], target, lane, key, previous, v[4], updated, suspect)
  if followed then tell('started', id, lane, target, attempt) end
  if k then spend(k.target, k) end
  return 'taken'
end

local budget = 4 * n + 16
local passed_over = {} -- targets whose first job is a suspect that may not run now

-- A run of a target's jobs without a key, while none of its keys waits: those of rank up to `limit`.
local function serve_keyless(t, lane, limit)
  local k = key_node(t, '')
  local most = n - #taken
  if t.concurrency > 0 then most = math.min(most, t.concurrency - t.running) end
  if t.interval > 0 then
    most = math.min(most, floor((now_us - math.max(t.tat, now_us) + (t.burst - 1) * t.interval) / t.interval) + 1)
  end
  if t.quota > 0 then most = math.min(most, t.quota - t.used) end
  local queue = queue_of(lane, k)
  local found = call('ZRANGE', queue, '-inf', limit, 'BYSCORE', 'LIMIT', 0, math.max(1, most))
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

-- One turn of a target: its rank in the lane afterwards, nil if it has no more to give now.
local function serve_target(t, lane, limit)
  budget = budget - 1
  if passed_over[t.name] or target_blocked(t) then return nil end
  local ring = call('ZRANGE', P .. 'ring:' .. lane .. ':' .. t.name, 0, 1)
  if #ring == 0 then return nil end
  if ring[1] == '' and #ring == 1 then
    serve_keyless(t, lane, limit)
  else
    serve_key(t, lane, ring[1])
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
  local found = call('ZRANGE', P .. 'lane:' .. lane, first, first + size - 1, 'WITHSCORES')
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

local function is_reference(member)
  return member == SUSPECTS or string.byte(member) == 126
end

-- Visits a window's entries in turn; returns how many of them, all at its front, stay where they are.
local function visit(window, lane, goal)
  local members, ranks = window.members, window.ranks
  local kept, gone = 0, {}
  while window.at <= #members and #taken < goal and budget > 0 and not news do
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
local function walk(lane, goal)
  local kept = 0
  news = false
  while #taken < goal and budget > 0 do
    restore() -- what was served so far stands in the lane where it belongs now
    local window = window_of(lane, kept, goal - #taken + 1)
    kept = kept + visit(window, lane, goal)
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
    while most_ms > 0 and #taken < n and budget > 0 and waited_ms(lanes[i]) > most_ms do
      local before = #taken
      walk(lanes[i], before + 1)
      restore()
      if #taken == before then break end
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
  local free = n - #taken
  for i = 1, #present do
    local lane = present[i]
    local due = math.min((credit[lane] or 0) + free * weights[lane] / sum, 2 * n)
    local before = #taken
    if due >= 1 then walk(lane, math.min(n, before + floor(due))) end
    call('HSET', P .. 'credit', lane, string.format('%.6f', due - (#taken - before)))
  end
end

promote()
serve_overdue()
if weight_sum > 0 then serve_weighted() end
for i = 1, #lanes do
  if #taken >= n or budget <= 0 then break end
  walk(lanes[i], n)
end

call_many('ZADD', P .. 'leases', leases)
restore()
if #ids > 0 then call('HSET', dk, 'nonce', nonce, 'ids', table.concat(ids, ',')) end
call('HSET', dk, 'seen', NOW)
call('PEXPIRE', dk, heartbeat_ms)
call('ZADD', P .. 'dispatchers', now_ms + heartbeat_ms, dispatcher)

local next_due = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
local wake_us = next_due[1] and math.max(0, tonumber(next_due[2]) - now_us) or -1
local more = false
if #taken < n and budget > 0 then
  if wake_us ~= 0 then call('ZADD', P .. 'idle', now_ms, dispatcher) end
else
  call('ZREM', P .. 'idle', dispatcher)
  for i = 1, #lanes do
    if call('EXISTS', P .. 'lane:' .. lanes[i]) == 1 then
      more = true
      break
    end
  end
end
woken = more
commit()
return answer(wake_us, more)
