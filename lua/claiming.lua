-- Prepended, after what takes jobs and gives turns, to the scripts that claim: a claim as lua/claim.lua promises it.

local HEARTBEAT_PART = 20 -- a heartbeat renewed within this part of itself is not renewed again

local dispatcher, dk
local n, lease_ms, promote_most, heartbeat_ms
local place -- of the claim: '' or '2', behind the names of its fields in the dispatcher's record
local next_nonce -- of the claim that may be made in the dispatcher's place while it waits for work, or ''
local last -- what the dispatcher's record says of its last claim in that place: nonce, ids, and seen, idle
local lanes, known, weights, weight_sum, patience
local left -- is there a job left in the lane that was visited last?

-- Reads the arguments; the error if they are wrong.
local function read_args()
  dispatcher, nonce = args[1], args[2]
  n, lease_ms, suspects_left = whole(args[3], 0), whole(args[4], 1), whole(args[5], 0)
  promote_most, heartbeat_ms = whole(args[6], 0), whole(args[7], 1)
  place, next_nonce = args[8] == '2' and '2' or args[8] == '1' and '', args[9]
  if not (n and lease_ms and suspects_left and promote_most and heartbeat_ms and place) or find(nonce, '[|,\n]') or find(next_nonce or '', '[|,\n ]') or #args < 12 or (#args - 9) % 3 ~= 0 then
    return redis.error_reply('ERR claim: dispatcher nonce n lease_ms suspects promote_most heartbeat_ms place next_nonce [lane weight wait]…')
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
  for i = 10, #args, 3 do add_lane(args[i], tonumber(args[i + 1]) or 0, tonumber(args[i + 2]) or 0) end
  -- lanes that are no longer configured still drain, last
  for i = 1, #LANES do add_lane(LANES[i], 0, 0) end
end

local function answer(wake_us, more)
  taken[1], taken[2], taken[4] = wake_us, more and 1 or 0, table.concat(ids, ',')
  return taken
end

-- The answer to a claim that is made again: the jobs it got that are still its own.
local function repeat_claim()
  local had = {}
  for id in string.gmatch(last[2] or '', '[^,]+') do had[#had + 1] = id end
  read_jobs(had)
  for i = 1, #had do
    local status, token, attempt, previous, updated, facts = match(lines[had[i]] or '', LINE)
    if status == 'running' and token == attempt .. ':' .. nonce then
      local body = body_of(had[i])
      -- one with short facts is nothing without its body
      if find(facts, FACTS) then
        reply(had[i], attempt .. '|' .. previous .. '|' .. updated .. '|' .. facts, body or '\n')
      elseif body then
        reply(had[i], '', body)
      end
    end
  end
  return answer(0, false)
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

local byte = string.byte
local function are_plain(members)
  for i = 1, #members do
    local first = byte(members[i])
    if first == 126 or first == 33 then return false end
  end
  return true
end

-- Some entries of a lane by rank, from the `first` on; `whole`: there are no more. Without `ranks` all of them are jobs.
local function window_of(lane, first, size)
  local found = call('ZRANGE', P .. 'lane:' .. lane, first, first + size - 1)
  -- ranks matter to references alone, and cost more than the rest
  if are_plain(found) then return { members = found, at = 1, whole = #found < size } end
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

-- Reads at once what taking the plain jobs of a window with references needs.
local function read_window(window, most)
  local plain = {}
  for i = 1, #window.members do
    if #plain >= most then break end
    local member = window.members[i]
    if not is_reference(member) and bodies[member] == nil then plain[#plain + 1] = member end
  end
  if #plain > 0 then read_jobs(plain) end
end

-- The jobs of a window from there on whose target has gained flows: into their flows too, since the lane is looked at
-- anew now, and each look has its price.
local function move_others(window, gone)
  for at = window.at, #window.members do
    local member = window.members[at]
    if not is_reference(member) and move(member) then
      budget = budget - 1
      gone[#gone + 1] = member
    end
  end
end

-- Visits a window without references.
local function visit_jobs(window, lane)
  local members, others = window.members, {}
  local own, found = fetch(members, math.min(#members, goal - taken_n))
  local at, moves = 1, false
  while at <= #members and taken_n < goal and budget > 0 and not news do
    local from = at
    if alike then at = take_run(alike, members, at, own, found) end
    if at == from then
      at = at + 1
      moves = take_fetched(members, from, own, found, lane) == 'moved'
    end
  end
  window.at, left = at, at <= #members and not moves
  if moves then move_others(window, others) end
  for first = 1, at - 1, CHUNK do
    call('ZREM', P .. 'lane:' .. lane, unpack(members, first, math.min(first + CHUNK - 1, at - 1)))
  end
  call_many('ZREM', P .. 'lane:' .. lane, others)
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
      if take(member, lane) == 'moved' then move_others(window, gone) end
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
  news, left = false, false
  while taken_n < goal and budget > 0 do
    restore() -- what was served so far stands in the lane where it belongs now
    local window = window_of(lane, kept, goal - taken_n + 1)
    if window.ranks then
      read_window(window, goal - taken_n)
      kept = kept + visit(window, lane)
    else
      visit_jobs(window, lane)
    end
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
-- add up to the weights too; a lane without work keeps none. One whose jobs are all that the reply carries pays for the
-- whole of it, and whom it left none goes first the next time.
local function serve_weighted()
  local present, place, sum = {}, {}, 0
  for i = 1, #lanes do
    if weights[lanes[i]] > 0 and call('EXISTS', P .. 'lane:' .. lanes[i]) == 1 then
      present[#present + 1] = lanes[i]
      place[lanes[i]] = i
      sum = sum + weights[lanes[i]]
    end
  end
  local credits = call('HGETALL', P .. 'credit')
  local credit = {}
  for i = 1, #credits, 2 do credit[credits[i]] = tonumber(credits[i + 1]) end
  call('DEL', P .. 'credit')
  table.sort(present, function(lane, other)
    local own, others = floor(credit[lane] or 0), floor(credit[other] or 0)
    return own > others or own == others and place[lane] < place[other]
  end)
  local free = n - taken_n
  for i = 1, #present do
    local lane = present[i]
    local due = math.min((credit[lane] or 0) + free * weights[lane] / sum, 2 * n)
    local before, open = taken_n, budget > 0
    if due >= 1 then walk(lane, math.min(n, before + floor(due))) end
    local spent = open and budget <= 0 and free or taken_n - before
    call('HSET', P .. 'credit', lane, string.format('%.6f', due - spent))
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
  if taken_n > 0 then fields = { 'nonce' .. place, nonce, 'ids' .. place, table.concat(ids, ',') } end
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

local STANDBY_FORM = 1 -- of the arguments: a version with others has another number, and leaves these alone
local STANDBY_MS = 2000 -- a dispatcher that shows no more life, though it is connected, is given nothing after that

-- Leaves here the claim that the dispatcher would make next (lua/handover.lua). The place for a suspect is not kept for it.
local function stand_by()
  local own = { unpack(args) }
  own[2], own[5] = next_nonce, '0'
  call('SET', P .. 'standby:' .. dispatcher, cmsgpack.pack({ STANDBY_FORM, own }), 'PX', STANDBY_MS)
end

-- A claim with the arguments in hand; its answer, or the error.
local function claim()
  local fault = read_args()
  if fault then return fault end
  -- without what is registered here no limit would hold
  if not conf[5] then return redis.error_reply('GWEMPTY claim: nothing is registered here') end
  begin_taking(lease_ms, n)
  begin_turns()
  left = false
  last = call('HMGET', dk, 'nonce' .. place, 'ids' .. place, 'seen', 'idle')
  if last[1] == nonce then return repeat_claim() end
  -- it brought nothing the first time, and what came since is the next one's
  if last[1] and last[1] == next_nonce then return answer(0, false) end
  read_lanes()
  promote(promote_most)
  serve_overdue()
  if weight_sum > 0 then serve_weighted() end
  for i = 1, #lanes do
    if taken_n >= n or budget <= 0 then break end
    walk(lanes[i], n)
  end

  call_many('ZADD', P .. 'leases', leases)
  end_alikes()
  restore()
  if armed then look_due() end
  local wake_us = next_due_us < 0 and -1 or math.max(0, next_due_us - now_us)
  local short = taken_n < n and budget > 0
  local more = not short and (left or has_work())
  if short then
    if wake_us ~= 0 then call('ZADD', P .. 'idle', now_ms, dispatcher) end
  elseif last[4] ~= '0' then
    call('ZREM', P .. 'idle', dispatcher)
  end
  if short and wake_us ~= 0 and taken_n == 0 and next_nonce ~= '' then
    stand_by()
  elseif last[4] ~= '0' then
    call('DEL', P .. 'standby:' .. dispatcher)
  end
  show_life(short and '1' or '0')
  woken = more
  return answer(wake_us, more)
end

-- They may be large, and the next claim may be far.
local function forget_taken() bodies, taken = NONE, NONE end
