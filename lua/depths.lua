-- Prepended to the scripts that tell of lanes as a whole: pending jobs are counted by lane and target, and by lane only where
-- that has a cap.

-- How many wait in each lane, and the lanes that are counted as a whole.
local function count_waiting()
  local sums, whole_lanes, flat = {}, {}, call('HGETALL', P .. 'waiting')
  for i = 1, #flat, 2 do
    local lane = match(flat[i], '^[^:]*')
    if lane == flat[i] then
      whole_lanes[#whole_lanes + 1] = lane
    else
      sums[lane] = (sums[lane] or 0) + tonumber(flat[i + 1])
    end
  end
  return sums, whole_lanes
end
