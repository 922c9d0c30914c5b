-- Prepended to the claim, after its walks: jobs that are due in a moment are given before they are, to start on time.
--
-- All of such a claim is as of the instant at which the first of them is due, a whole ms: no lease begins and no record
-- says that a job started before it was to run. They go straight from `due` to the dispatcher, which holds them until
-- then, and are those alone that nothing may keep back: first attempts, of targets without limits. What it does not take
-- stays where it is, for were it made ready, the next claim would start it before its time.

local take_ahead, hold_again
do
  local UNTIL_DUE = '^scheduled||0||||(%a*)|([^|]*)|([^|]*)|(%d*)|.*|(%d+)$' -- flags, target, lane, expires, rank
  local LOOK_MOST = 1000 -- entries of `due` that are looked at, so that the best of them come first

  -- What is due by the end of that ms.
  local function due_by(ms)
    return call('ZRANGE', K.due, '-inf', text(ms * 1000 + 999), 'BYSCORE', 'LIMIT', 0, math.min(promote_most, LOOK_MOST))
  end

  -- The jobs among these entries that may start at that ms, in turn: by lane and priority, then as they are due; what their
  -- lanes and targets are.
  local function free_among(entries, ms)
    local lane_at, order, lane_of, target_of = {}, {}, {}, {}
    for i = 1, #lanes do lane_at[lanes[i]] = i end
    for first = 1, #entries, CHUNK do
      local found = call('HMGET', K.state, unpack(entries, first, math.min(first + CHUNK - 1, #entries)))
      for i = 1, #found do
        local flags, target, lane, expires, rank = match(found[i] or '', UNTIL_DUE)
        if flags and lane_at[lane] and not find(flags, 's', 1, true) and not target_node(target)
            and (expires == '' or tonumber(expires) > ms) then
          local at = first + i - 1
          order[#order + 1] = (lane_at[lane] * 256 + class_of(rank)) * LOOK_MOST + at - 1
          lane_of[entries[at]], target_of[entries[at]] = lane, target
        end
      end
    end
    table.sort(order)
    local free = {}
    for i = 1, #order do free[i] = entries[order[i] % LOOK_MOST + 1] end
    return free, lane_of, target_of
  end

  -- The first `count` of these jobs start.
  local function start_ahead(free, count, lane_of, target_of)
    local found, own, at = fetch_bodies(free, count), {}, 1
    for i = 1, count do own[i] = false end
    goal = n
    while at <= count and budget > 0 do
      local from, before = at, taken_n
      if alike and not followed then at = take_run(alike, free, at, own, found) end
      if at == from then
        take_fetched(free, at, own, found, lane_of[free[at]])
        at = at + 1
      end
      local lane = lane_of[free[from]]
      waiting(lane, target_of[free[from]], taken_n - before)
      stand('scheduled', lane, before - taken_n)
    end
    call_many('ZREM', K.due, ids)
  end

  -- Takes what the first ms in `due` brings, with the clock put forward to it.
  function take_ahead()
    local ms = floor(next_due_us / 1000)
    local hold_us = math.max(0, ms * 1000 - now_us)
    local entries = due_by(ms)
    local free, lane_of, target_of = free_among(entries, ms)
    -- where not all will have a place, a share for each lane is the walk's to give, and others of that ms may come first
    if #free == 0 or #entries > n and (#free < #entries or weight_sum > 0) then return end
    if hold_us > 0 then set_clock(now_us + hold_us) end
    begin_taking(lease_ms, n)
    start_ahead(free, math.min(#free, n), lane_of, target_of)
    call_many('ZADD', K.leases, leases)
    end_alikes()
    look_due()
    if taken_n > 0 then taken[6] = hold_us end
  end

  -- The claim that brought this job is made again: if that was before its time, and it has not come yet, so is this one.
  function hold_again(id)
    local started = match(line_of(id) or '', '^running|[^|]*|%d+|(%d+)|')
    local hold_us = started and tonumber(started) * 1000 - now_us or 0
    if hold_us <= 0 or hold_us > AHEAD_MOST then return end
    set_clock(now_us + hold_us)
    begin_taking(lease_ms, n)
    taken[6] = hold_us
  end
end
