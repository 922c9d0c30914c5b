-- Prepended to the claim, after its arguments: how it goes through the lanes.

local left           -- is there a job left in the lane that was visited last?
local met_references -- in a lane, in this claim?
local references_in = {} -- partitions in which the last claim that got anything met some, as is likely to go on
local plenty_in      -- the partition of the last claim, if it got more than are taken at the front
local in_hand        -- what a submit that makes the claim has accepted and not put into its lane (handover.lua); nil: nothing
local FRONT_MOST = 32 -- more at once cost less by their places than as a table each
local walk, serve_front, has_work, may_keep_in_hand, place_in_hand
do
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

  local referring = {} -- lane -> were there references when it was last looked at?

  -- What a reference of a lane stands for: its rank afterwards; nil if there is no more now, and then whether it stays.
  local function serve_reference(member, lane, limit)
    if member == SUSPECTS then return serve_suspect(lane) end
    local t = target_node(string.sub(member, 2))
    if not t then return nil, true end
    local rank = serve_target(t, lane, limit)
    lane_changed(t, lane, rank)
    return rank and tonumber(rank), passed_over[t.name]
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
    local place, last = P .. 'lane:' .. lane, first + size - 1
    local members, ranks
    if not referring[lane] then
      -- ranks matter to references alone, and cost more than the rest
      members = call('ZRANGE', place, first, last)
      referring[lane] = not are_plain(members)
    end
    if referring[lane] then
      local found = call('ZRANGE', place, first, last, 'WITHSCORES')
      members, ranks = {}, {}
      for i = 1, #found, 2 do
        members[#members + 1] = found[i]
        ranks[#ranks + 1] = tonumber(found[i + 1])
      end
      referring[lane] = not are_plain(members)
      if not referring[lane] then ranks = nil end
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

  -- Visits a window without references; the jobs of it that went into their flows without being visited.
  local function visit_jobs(window, lane)
    local members, others, own, found = window.members, NONE, window.own, window.bodies
    if not own then own, found = fetch(members, math.min(#members, goal - taken_n)) end
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
    if moves then
      others = {}
      move_others(window, others)
    end
    return others
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
    left = window.at <= #members
    call_many('ZREM', P .. 'lane:' .. lane, gone)
    return kept
  end

  -- Takes from one lane, by rank, until `goal` jobs are taken in all. The walk keeps a window of the lane in hand and
  -- moves a reference in it as its rank changes.
  function walk(lane, upto)
    local kept = 0
    goal = upto
    news, left = false, false
    while taken_n < goal and budget > 0 do
      restore() -- what was served so far stands in the lane where it belongs now
      local window = window_of(lane, kept, goal - taken_n + 1)
      if window.ranks then
        met_references = true
        read_window(window, goal - taken_n)
        kept = kept + visit(window, lane)
      else
        local others = visit_jobs(window, lane)
        local members, last = window.members, window.at - 1
        for first = 1, last, CHUNK do
          call('ZREM', P .. 'lane:' .. lane, unpack(members, first, math.min(first + CHUNK - 1, last)))
        end
        call_many('ZREM', P .. 'lane:' .. lane, others)
      end
      if news then
        kept, news = 0, false
      elseif window.whole and window.at > #window.members then
        break
      end
    end
  end

  local front, front_lanes -- what ZMPOP takes, for the lanes of this partition; these
  local keys, lane_by      -- their keys, and each by its key

  local function read_front()
    if front_lanes == lanes and front[2] == P .. 'lane:' .. lanes[1] then return end
    front, front_lanes, keys, lane_by = { #lanes }, lanes, {}, {}
    for i = 1, #lanes do
      keys[i] = P .. 'lane:' .. lanes[i]
      front[i + 1], lane_by[keys[i]] = keys[i], lanes[i]
    end
    front[#lanes + 2], front[#lanes + 3] = 'MIN', 'COUNT'
  end

  local function goes_by_front()
    return weight_sum == 0 and lanes[1] and not references_in[P] and (n <= FRONT_MOST or plenty_in ~= P)
  end

  -- Takes from the lanes in strict order what is at the front, out of the lane at once: one command for all lanes that are
  -- empty, and none to take the jobs out. False where it did not come to an end: the rest is for walk().
  function serve_front()
    if not goes_by_front() then return false end
    read_front()
    goal, news, left = n, false, false
    while taken_n < n and budget > 0 do
      restore() -- what has become ready stands in the lanes by then
      front[#lanes + 4] = n - taken_n
      local popped = in_hand or call('ZMPOP', unpack(front))
      if not popped then return true end
      local found, members = popped[2], {}
      for i = 1, #found do members[i] = found[i][1] end
      local window = { members = members, at = 1, own = popped.own, bodies = popped.bodies }
      local others = are_plain(members) and visit_jobs(window, lane_by[popped[1]])
      if window.at <= #found then
        local flown = {}
        for i = 1, others and #others or 0 do flown[others[i]] = true end
        for i = window.at, #found do
          if not flown[members[i]] then call('ZADD', popped[1], found[i][2], members[i]) end
        end
      end
      if in_hand or not others then
        in_hand = nil
        return others and true
      end
      news = false
    end
    return true
  end

  -- Is there anything in these lanes?
  function has_work()
    if not lanes[1] then return false end
    read_front()
    return call('EXISTS', unpack(keys)) > 0
  end

  -- May the claim take what is in hand from there, as if it stood in its lane? Where nothing else is to be taken.
  function may_keep_in_hand()
    if not (patient and goes_by_front()) then return false end
    restore() -- what has just become due in a flow stands in the lanes by then
    return not has_work() and lane_by[in_hand[1]]
  end

  function place_in_hand()
    call_many('ZADD', in_hand[1], in_hand.list)
    in_hand = nil
  end
end
