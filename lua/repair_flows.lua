-- Finds what is wrong with a target's flows (the rules are in flows.lua): running counts that differ from the leases,
-- keys held for nothing, timers and turns that are lost; mends it if asked to. Without keys it looks at the target
-- itself, with keys at those.
--
-- KEYS  1 prefix
-- ARGV  1 mend (0 or 1), 2 leases to look at, at most, 3 target, then keys ('': the jobs without one)
-- Returns  MessagePack, per finding 3: word, target or `target:key`, detail; `uncounted` alone if there are more leases
local mend, most, target = ARGV[1] == '1', whole(ARGV[2], 1), ARGV[3]
if not most or not target or not mend and ARGV[1] ~= '0' then
  return redis.error_reply('ERR repair_flows: mend leases_at_most target key…')
end

local t = target_node(target)

-- What is left of flows of a target that has none.
local function check_strays()
  for i = 1, #LANES do
    local path = LANES[i] .. ':' .. target
    for _, kind in ipairs({ 'ring:', 'heads:' }) do
      if call('EXISTS', P .. kind .. path) == 1 then
        found('flow_stray', target, kind .. path)
        if mend then call('UNLINK', P .. kind .. path) end
      end
    end
    for at = 4, #ARGV do
      local queue = target .. ':' .. ARGV[at]
      local filled = call('EXISTS', P .. 'flow:' .. LANES[i] .. ':' .. queue) == 1
      if not filled and call('ZSCORE', P .. 'flows:' .. LANES[i], queue) then
        found('flow_stray', queue, 'flows:' .. LANES[i])
        if mend then call('ZREM', P .. 'flows:' .. LANES[i], queue) end
      end
    end
  end
  for at = 4, #ARGV do
    local key = 'fk:' .. target .. ':' .. ARGV[at]
    if call('EXISTS', P .. key) == 1 then
      found('flow_stray', target .. ':' .. ARGV[at], key)
      if mend then call('UNLINK', P .. key) end
    end
  end
end

local running, running_of = 0, {}
local function count_running(size)
  for first = 0, size - 1, CHUNK do
    local ids = call('ZRANGE', P .. 'leases', first, first + CHUNK - 1)
    read_lines(ids)
    for i = 1, #ids do
      local job = read_job(ids[i])
      if job and job.target == target and job.status == 'running' then
        running = running + 1
        if job.key ~= '' then running_of[job.key] = (running_of[job.key] or 0) + 1 end
      end
    end
  end
end

-- The counts and timers of a node, and whether it says rightly that it is blocked. From here on the node is as it must
-- be; only what is touched is written.
local function check_node(node, path, right, concurrency, stopped)
  if node.running ~= right then
    found('running_wrong', path, node.running .. ' instead of ' .. right)
    node.running = right
  end
  if node.timer > 0 and not call('ZSCORE', P .. 'due', '~' .. path) then
    found('timer_lost', path)
    node.timer = 0
  end
  local blocked = stopped or node.timer > 0 or concurrency > 0 and node.running >= concurrency
  if blocked ~= (node.blocked == 1) then found('blocked_wrong', path, 'blocked: ' .. tostring(node.blocked == 1)) end
  return blocked
end

local function check_held(k)
  local job = read_job(k.held)
  if job and job.status == 'retrying' and job.target == target and job.key == k.name then return end
  found('held_wrong', k.path, k.held)
  k.held = ''
end

-- Is a key listed and in its turn in one lane as its queue and state want it?
local function check_turn(k, lane, blocked)
  local path = lane .. ':' .. target
  local head = call('ZRANGE', queue_of(lane, k), 0, 0, 'WITHSCORES')
  local filled = head[1] and true or false
  local listed = call('ZSCORE', P .. 'flows:' .. lane, k.path) and true or false
  if listed ~= filled then
    found('queue_listed_wrong', k.path, lane)
    if mend then list_queue(k, lane, listed, filled) end
  end
  if not k.free and (has_lane(k, lane) and true or false) ~= filled then
    found('lanes_wrong', k.path, lane)
    if filled then add_lane_to(k, lane) else drop_lane_from(k, lane) end
  end
  local at, turn = call('ZSCORE', P .. 'heads:' .. path, k.name), call('ZSCORE', P .. 'ring:' .. path, k.name)
  local right
  if filled and not blocked then
    right = at and turn and tonumber(at) == tonumber(head[2]) and class_of(turn) == class_of(head[2])
  else
    right = not at and not turn
  end
  if not right then found('turn_wrong', k.path, lane) end
  if mend then queue_changed(k, lane) end
end

local function check_key(k)
  local blocked = false
  if not k.free then
    if k.held ~= '' then check_held(k) end
    local concurrency = t.ordered == 1 and 1 or t.key_concurrency
    blocked = check_node(k, k.path, running_of[k.name] or 0, concurrency, k.held ~= '')
  end
  for i = 1, #LANES do check_turn(k, LANES[i], blocked) end
end

local function check_target()
  local blocked = check_node(t, target, running, concurrency_of(t), t.paused > 0)
  for i = 1, #LANES do
    local lane = LANES[i]
    local at = call('ZSCORE', P .. 'lane:' .. lane, '~' .. target)
    local first = call('ZRANGE', P .. 'heads:' .. lane .. ':' .. target, 0, 0, 'WITHSCORES')[2]
    local right = not blocked and first or nil
    if tonumber(at or -1) ~= tonumber(right or -1) or (has_lane(t, lane) and true or false) ~= (at and true or false) then
      found('reference_wrong', target, lane)
    end
    if at then add_lane_to(t, lane) end -- so that restore() takes it out where it must not be
    if mend then lane_changed(t, lane) end
  end
end

local leases = call('ZCARD', P .. 'leases')
if not t then
  check_strays()
elseif leases > most then
  found('uncounted', target, 'leases')
else
  count_running(leases)
  for at = 4, #ARGV do check_key(key_node(t, ARGV[at])) end
  if #ARGV == 3 then check_target() end
  if mend then commit() end
end
return cmsgpack.pack(findings)
