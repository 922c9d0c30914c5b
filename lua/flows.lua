-- Prepended after the limits: flows, the sub-queues of targets that have limits (docs: flows).
--
-- The pending jobs of a target with flows wait in one queue per key, the jobs without a key under ''.
--   flow:<lane>:<target>:<key>  ZSET  pending ids by rank
--   ring:<lane>:<target>        ZSET  keys that may run, in turn: class * SPAN + a counter
--   heads:<lane>:<target>       ZSET  the same keys by the rank of their first job
--   flows:<lane>                ZSET  `<target>:<key>` of every queue of the lane that is not empty, all of score 0: what
--                                     listings walk, since a blocked key is in no ring
--   earlier:<target>            HASH  by lane: the rank up to which the jobs that came before the target had limits are
--                                     in its flows; those above it wait in the lane itself until a claim meets them
--   lane:<lane>                 ZSET  holds one reference `~<target>` at the least of heads
--
-- Two rules hold after every script (restore() makes them so for whatever the script touched):
--   a key is in ring and heads  <=>  its queue is not empty and the key is not blocked
--   ~T is in the lane, at the least of heads  <=>  the ring is not empty and the target is not blocked
-- Whatever unblocks a node (a settle, a timer, resume, another limit) evaluates it whole, so no wake-up can be lost.

local changed_queues -- key node -> its lanes, and of each: has it given a job, so that its next turn is a later one? Nil: none
local added -- while the places of many keys are made right: by ZSET, what is to go in
at_begin(function() changed_queues, added = nil, nil end)

local function queue_changed(node, lane, served)
  changed_queues = changed_queues or {}
  local lanes_of = changed_queues[node.path]
  if not lanes_of then lanes_of = {}; changed_queues[node.path] = lanes_of end
  lanes_of[lane] = served or lanes_of[lane] or false
  touch_key(node)
  touch_target(node.target)
end

-- `rank`: the least of heads, where that has just been read.
local function lane_changed(target, lane, rank)
  if not target.changed then target.changed = {} end
  target.changed[lane] = rank or false
  touch_target(target)
end

local function has_lane(node, lane) return string.find(node.lanes, ',' .. lane .. ',', 1, true) end
local function add_lane_to(node, lane)
  if not has_lane(node, lane) then node.lanes = (node.lanes == '' and ',' or node.lanes) .. lane .. ',' end
end
local function drop_lane_from(node, lane)
  local from, to = has_lane(node, lane)
  if from then
    node.lanes = string.sub(node.lanes, 1, from) .. string.sub(node.lanes, to + 1)
    if node.lanes == ',' then node.lanes = '' end
  end
end

local function queue_of(lane, k) return P .. 'flow:' .. lane .. ':' .. k.path end

-- For how long a pending job has waited, in ms.
local function wait_of(id)
  local job = id and load(id)
  return job and math.max(0, now_ms - tonumber(job.updated ~= '' and job.updated or job.created)) or 0
end

-- How long the first job of a lane has been ready, in ms; 0 for an empty lane.
local function waited_ms(lane)
  local id = call('ZRANGE', P .. 'lane:' .. lane, 0, 0)[1]
  if not id then return 0 end
  if id == SUSPECTS then
    id = call('ZRANGE', P .. 'suspect:' .. lane, 0, 0)[1]
  elseif string.byte(id) == 126 then
    local path = lane .. ':' .. string.sub(id, 2)
    local key = call('ZRANGE', P .. 'heads:' .. path, 0, 0)[1]
    id = key and call('ZRANGE', P .. 'flow:' .. path .. ':' .. key, 0, 0)[1]
  end
  return wait_of(id)
end

-- Puts a pending job where a claim will find it, at its rank.
local function make_ready(id, lane, target, key, rank, suspect)
  waiting(lane, target, 1)
  local t = target_node(target)
  if t then
    local k = key_node(t, key)
    call('ZADD', queue_of(lane, k), rank, id)
    queue_changed(k, lane)
  elseif suspect then
    call('ZADD', P .. 'suspect:' .. lane, rank, id)
    call('ZADD', P .. 'lane:' .. lane, 'LT', rank, SUSPECTS)
  else
    call('ZADD', P .. 'lane:' .. lane, rank, id)
  end
end

-- Takes a pending job out of where make_ready put it.
local function unmake_ready(id, lane, target, key)
  waiting(lane, target, -1)
  if call('ZREM', P .. 'lane:' .. lane, id) == 1 then return end
  local t = target_node(target)
  local k = t and key_node(t, key)
  if k and call('ZREM', queue_of(lane, k), id) == 1 then
    queue_changed(k, lane)
  elseif call('ZREM', P .. 'suspect:' .. lane, id) == 1 then
    place_suspects(lane)
  end
end

local function add(place, score, member)
  if not added then
    call('ZADD', place, score, member)
    return
  end
  local list = added[place]
  if not list then list = {}; added[place] = list end
  list[#list + 1] = score
  list[#list + 1] = member
end

-- Keeps the index of queues that are not empty. Most queues stay as they are, and cost nothing: a key's record says in
-- which lanes it has jobs, and those that are never blocked are in the ring if there are any.
local function list_queue(k, lane, listed, filled)
  if filled and not listed then
    add(P .. 'flows:' .. lane, 0, k.path)
  elseif listed and not filled then
    call('ZREM', P .. 'flows:' .. lane, k.path)
  end
end

-- Puts a key in, or takes it out of, its target's ring and heads in one lane.
local function place_key(k, lane, blocked, served)
  local t = k.target
  local path = lane .. ':' .. t.name
  local ring, heads = P .. 'ring:' .. path, P .. 'heads:' .. path
  local head = call('ZRANGE', queue_of(lane, k), 0, 0, 'WITHSCORES')
  local listed = has_lane(k, lane)
  if not k.free then
    if head[1] then add_lane_to(k, lane) else drop_lane_from(k, lane) end
  end
  if blocked or not head[1] then
    call('ZREM', ring, k.name)
    local was_head = call('ZREM', heads, k.name) == 1
    list_queue(k, lane, listed or k.free and was_head, head[1])
    return
  end
  local class = class_of(head[2])
  local now_at = not served and call('ZSCORE', ring, k.name)
  list_queue(k, lane, listed or k.free and (served or now_at), true)
  if not now_at or class_of(now_at) ~= class then
    -- new, or its head is of another class now: at the back of that class
    t.turn = t.turn + 1
    touch_target(t)
    add(ring, class * SPAN + t.turn, k.name)
  end
  add(heads, head[2], k.name)
end

-- Makes the first rule true for a key whose queue or state changed; its lanes are noted for the second.
local function settle_key(k)
  local blocked = key_blocked(k)
  local lanes_of = changed_queues and changed_queues[k.path]
  if (blocked and 1 or 0) ~= k.blocked then
    k.blocked = blocked and 1 or 0
    lanes_of = lanes_of or {}
    for lane in string.gmatch(k.lanes, '[^,]+') do lanes_of[lane] = lanes_of[lane] or false end
  end
  for lane, served in pairs(lanes_of or NONE) do
    place_key(k, lane, blocked, served)
    lane_changed(k.target, lane)
  end
  if changed_queues then changed_queues[k.path] = nil end
end

local function restore_target(t)
  local blocked = target_blocked(t)
  if (blocked and 1 or 0) ~= t.blocked then
    t.blocked = blocked and 1 or 0
    for i = 1, #LANES do lane_changed(t, LANES[i]) end
  end
  for lane, known in pairs(t.changed or NONE) do
    local rank = not blocked and (known or call('ZRANGE', P .. 'heads:' .. lane .. ':' .. t.name, 0, 0, 'WITHSCORES')[2])
    if rank then
      call('ZADD', P .. 'lane:' .. lane, rank, '~' .. t.name)
      add_lane_to(t, lane)
      woken = true
    elseif has_lane(t, lane) then
      call('ZREM', P .. 'lane:' .. lane, '~' .. t.name)
      drop_lane_from(t, lane)
    end
  end
  t.changed = nil
  local fields = changes_of(t, TARGET_STATE)
  if #fields > 0 then call('HSET', P .. 'ft:' .. t.name, unpack(fields)) end
end

-- Makes the two rules true again for every node that was touched, keys first.
local function restore()
  if touched_keys then
    added = {}
    for _, k in pairs(touched_keys) do
      settle_key(k)
      if not k.free then write_key(k) end
    end
    for place, list in pairs(added) do call_many('ZADD', place, list) end
    touched_keys, added = nil, nil
  end
  if touched_targets then
    for _, t in pairs(touched_targets) do restore_target(t) end
    touched_targets = nil
  end
end

-- The end of a script that changed something: flows restored, records and counters written, those told who wait for a
-- job that ended, an idle dispatcher woken if there is work that was not there.
local function commit()
  restore()
  flush_records()
  flush_counters()
  if ended then tell_waiters() end
  if events then write_events() end
  if woken then wake_one() end
  if posted then wake_forwarder() end
  if gist_due then keep_gist() end
end
