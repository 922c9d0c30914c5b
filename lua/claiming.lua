-- Prepended, after what takes jobs and gives turns, to the scripts that claim: a claim as lua/claim.lua promises it.

local HEARTBEAT_PART = 20 -- a heartbeat renewed within this part of itself is not renewed again

local last -- what the dispatcher's record says of its last claim in that place: nonce, ids, and seen, idle
local stands_in -- does a submit make it in the dispatcher's place? Whoever left it there has made none since

local function answer(wake_us, more)
  taken[1], taken[2], taken[4] = wake_us, more and 1 or 0, table.concat(ids, ',')
  return taken
end

-- The answer to a claim that is made again: the jobs it got that are still its own, under a lease from now on.
local function repeat_claim()
  local had = {}
  for id in string.gmatch(last[2] or '', '[^,]+') do had[#had + 1] = id end
  if had[1] then hold_again(had[1]) end
  read_jobs(had)
  for i = 1, #had do
    local status, token, attempt, previous, updated, facts = match(lines[had[i]] or '', LINE)
    if status == 'running' and token == attempt .. ':' .. nonce then
      -- it starts only now, when the lease of the first time may be all but over; one that is parked has a deadline of its own
      if not find(match(facts, '^%a*'), 'w', 1, true) then leases[#leases + 1], leases[#leases + 2] = DEADLINE, had[i] end
      local body = body_of(had[i])
      -- one with short facts is nothing without its body
      if find(facts, FACTS) then
        reply(had[i], attempt .. '|' .. previous .. '|' .. updated .. '|' .. facts, body or '\n')
      elseif body then
        reply(had[i], '', body)
      end
    end
  end
  call_many('ZADD', K.leases, leases)
  return answer(0, false)
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

-- Writes what the dispatcher's record says of this claim, and renews its heartbeat where the last one is not of just
-- now: by a claim of its own, since that of a submit is no sign of its life. `idle`: '1' if it may be among the idle, whom
-- a wake-up takes out by itself.
local function show_life(idle)
  local fields = {}
  if taken_n > 0 then fields = { 'nonce' .. place, nonce, 'ids' .. place, table.concat(ids, ',') } end
  if idle ~= last[4] then
    fields[#fields + 1] = 'idle'
    fields[#fields + 1] = idle
  end
  local since_ms = now_ms - (tonumber(last[3]) or 0)
  local renewed = not stands_in and (since_ms < 0 or since_ms >= heartbeat_ms / HEARTBEAT_PART)
  if renewed then
    fields[#fields + 1] = 'seen'
    fields[#fields + 1] = NOW
  end
  if #fields > 0 then call('HSET', dk, unpack(fields)) end
  if not renewed then return end
  call('PEXPIRE', dk, heartbeat_ms)
  call('ZADD', P .. 'dispatchers', now_ms + heartbeat_ms, dispatcher)
end

local STANDBY_FORM = 3 -- of the arguments, and of the message: a version with others has another number, and leaves these alone
local STANDBY_MS = 2000 -- a dispatcher that shows no more life, though it is connected, is given nothing after that
local STOOD_BY = { false, false, false, '1' } -- what the record of one says whose claim still stands by, as far as it matters

-- Leaves here the claim that the dispatcher would make next (lua/handover.lua). The place for a suspect is not kept for it,
-- and it brings nothing before that is due.
local function stand_by()
  local own = { unpack(args) }
  own[2], own[4], own[8] = next_nonce, '0', '0'
  -- the dispatcher's record outlives it
  local within_ms = math.min(STANDBY_MS, floor(heartbeat_ms / 2))
  call('SET', P .. 'standby:' .. dispatcher, cmsgpack.pack({ STANDBY_FORM, own }), 'PX', within_ms)
end

-- A claim by the arguments that were read; its answer, or the error.
local function claim_read()
  -- without what is registered here no limit would hold
  if not conf[5] then return redis.error_reply('GWEMPTY claim: nothing is registered here') end
  begin_taking(lease_ms, n)
  begin_turns()
  left, met_references = false, false
  stands_in = nonce == next_nonce
  last = stands_in and STOOD_BY or call('HMGET', dk, 'nonce' .. place, 'ids' .. place, 'seen', 'idle')
  if last[1] == nonce then return repeat_claim() end
  -- it brought nothing the first time, and what came since is the next one's
  if last[1] and last[1] == next_nonce then return answer(0, false) end
  read_lanes()
  promote(promote_most)
  if in_hand and not may_keep_in_hand() then place_in_hand() end
  if not patient then serve_overdue() end
  if weight_sum > 0 then serve_weighted() end
  for i = 1, serve_front() and 0 or #lanes do
    if taken_n >= n or budget <= 0 then break end
    walk(lanes[i], n)
  end
  if taken_n > 0 then references_in[P] = met_references or nil end
  plenty_in = taken_n > FRONT_MOST and P

  call_many('ZADD', K.leases, leases)
  end_alikes()
  restore()
  if armed then look_due() end
  local began_us = now_us
  if taken_n == 0 and n > 0 and budget > 0 and next_due_us > now_us and next_due_us < now_us + ahead_us then take_ahead() end
  local wake_us = next_due_us < 0 and -1 or math.max(0, next_due_us - began_us)
  local short = taken_n < n and budget > 0
  local more = not short and (left or has_work())
  local waits = short and wake_us ~= 0 and not stands_in -- else it is idle as before
  local stands = waits and taken_n == 0 and next_nonce ~= ''
  if waits then
    call('ZADD', K.idle, stands and now_ms - SPAN or now_ms, dispatcher)
  elseif not short and last[4] ~= '0' then
    call('ZREM', K.idle, dispatcher)
  end
  if stands then
    stand_by()
  elseif not stands_in and last[4] ~= '0' then
    call('DEL', P .. 'standby:' .. dispatcher)
  end
  show_life(short and '1' or '0')
  woken = more
  return answer(wake_us, more)
end

-- A claim with the arguments in hand; its answer, or the error.
local function claim() return read_args() or claim_read() end

-- They may be large, and the next claim may be far.
local function forget_taken() bodies, taken = NONE, NONE end
