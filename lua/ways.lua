-- Prepended to the claim, after single and many turns: its arguments, and the lanes that it goes by.

local dispatcher, dk
local n, lease_ms, promote_most, heartbeat_ms
local place -- of the claim: '' or '2', behind the names of its fields in the dispatcher's record
local ahead_us -- by which jobs may be given before they are due
local next_nonce -- of the claim that may be made in the dispatcher's place while it waits for work, or ''
local lanes, weights, weight_sum, patience
local patient -- may the first job of every lane wait as long as it takes?
local AHEAD_MOST = 10000 -- us
local read_args, read_lanes
do
  local ways, ways_text        -- the argument that is the same from claim to claim, in parts, and what it was
  local known                  -- lane -> is it among them?
  local lanes_ways, lanes_conf -- what these were read from

  -- Is what is the same from claim to claim as it must be?
  local function read_ways()
    if ways_text and args[7] == ways_text then return true end
    ways, ways_text = {}, nil
    for value in string.gmatch(args[7] or '', '[^,]+') do ways[#ways + 1] = value end
    lease_ms, promote_most, heartbeat_ms = whole(ways[1], 1), whole(ways[2], 0), whole(ways[3], 1)
    if not (lease_ms and promote_most and heartbeat_ms) or #ways < 6 or #ways % 3 ~= 0 then return false end
    ways_text = args[7]
    return true
  end

  -- Reads the arguments; the error if they are wrong.
  function read_args()
    dispatcher, nonce = args[1], args[2]
    n, suspects_left = whole(args[3], 0), whole(args[4], 0)
    place, next_nonce = args[5] == '2' and '2' or args[5] == '1' and '', args[6]
    ahead_us = whole(args[8], 0)
    if not (n and suspects_left and place and read_ways() and ahead_us and ahead_us <= AHEAD_MOST) or find(nonce, '[|,\n]') or find(next_nonce, '[|,\n ]') then
      return redis.error_reply('ERR claim: dispatcher nonce n suspects place next_nonce lease_ms,promote_most,heartbeat_ms[,lane,weight,wait]… ahead_us')
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
    patient = patient and most_ms == 0
  end

  function read_lanes()
    if lanes_ways == ways and lanes_conf == conf then return end
    lanes, known, weights, weight_sum, patience, patient = {}, {}, {}, 0, {}, true
    for i = 4, #ways, 3 do add_lane(ways[i], tonumber(ways[i + 1]) or 0, tonumber(ways[i + 2]) or 0) end
    -- lanes that are no longer configured still drain, last
    for i = 1, #LANES do add_lane(LANES[i], 0, 0) end
    lanes_ways, lanes_conf = ways, conf
  end
end
