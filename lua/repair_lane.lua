-- Finds whether the counts of what waits in a lane, and the reference to its suspects, are right; mends them if asked to.
--
-- KEYS  1 prefix
-- ARGV  1 mend (0 or 1), 2 jobs and flows to look at, at most, 3 lane
-- Returns  MessagePack, per finding 3: word, lane or `lane:target`, detail; `uncounted` alone if there are more
local mend, most, lane = ARGV[1] == '1', whole(ARGV[2], 1), ARGV[3]
if not most or not lane or not mend and ARGV[1] ~= '0' then
  return redis.error_reply('ERR repair_lane: mend at_most lane')
end

local right = { [lane] = caps[lane] and 0 }
local function count(target, n)
  local path = path_of(lane, target)
  if caps[lane] then right[lane] = right[lane] + n end
  right[path] = (right[path] or 0) + n
end

local function count_job(id)
  local job = id ~= SUSPECTS and string.byte(id) ~= 126 and load(id)
  if job then count(job.target, 1) end
end

local function count_queue(queue)
  count(string.match(queue, '^[^:]+'), call('ZCARD', P .. 'flow:' .. lane .. ':' .. queue))
end

-- Counts every entry of an index, a chunk at a time, so that few of them are in memory at once.
local function walk(index, size, count_entry)
  for first = 0, size - 1, CHUNK do
    local entries = call('ZRANGE', P .. index, first, first + CHUNK - 1)
    read_lines(entries)
    for i = 1, #entries do count_entry(entries[i]) end
  end
end

local function check_counts()
  local there = {}
  local flat = call('HGETALL', P .. 'waiting')
  for i = 1, #flat, 2 do
    if flat[i] == lane and caps[lane] or string.sub(flat[i], 1, #lane + 1) == lane .. ':' then
      there[flat[i]] = tonumber(flat[i + 1])
      right[flat[i]] = right[flat[i]] or 0
    end
  end
  for field, n in pairs(right) do
    if n ~= (there[field] or 0) then
      found('waiting_wrong', field, (there[field] or 0) .. ' instead of ' .. n)
      if mend and n > 0 then
        call('HSET', P .. 'waiting', field, n)
      elseif mend then
        call('HDEL', P .. 'waiting', field)
      end
    end
  end
end

local first = call('ZRANGE', P .. 'suspect:' .. lane, 0, 0, 'WITHSCORES')[2]
if tonumber(first or -1) ~= tonumber(call('ZSCORE', P .. 'lane:' .. lane, SUSPECTS) or -1) then
  found('suspects_wrong', lane)
  if mend then place_suspects(lane) end
end
local counts = { ['lane:'] = count_job, ['suspect:'] = count_job, ['flows:'] = count_queue }
local size, sizes = 0, {}
for kind in pairs(counts) do
  sizes[kind] = call('ZCARD', P .. kind .. lane)
  size = size + sizes[kind]
end
if size > most then
  found('uncounted', lane, 'jobs')
else
  for kind, count_entry in pairs(counts) do walk(kind .. lane, sizes[kind], count_entry) end
  check_counts()
end
return cmsgpack.pack(findings)
