-- Counts scheduled, retrying and dead jobs by lane, and sets their counters right if asked to.
--
-- KEYS  1 prefix
-- ARGV  1 mend (0 or 1), 2 jobs that may be counted
-- Returns  MessagePack, per finding 3: word, counter, detail
local mend, most = ARGV[1] == '1', whole(ARGV[2], 1)
if not most or not mend and ARGV[1] ~= '0' then return redis.error_reply('ERR repair_states: mend most') end

local function count()
  local right = {}
  for _, index in ipairs({ 'due', 'dead' }) do
    for first = 0, call('ZCARD', P .. index) - 1, CHUNK do
      local ids = call('ZRANGE', P .. index, first, first + CHUNK - 1)
      read_lines(ids)
      for i = 1, #ids do
        local state, lane = match(lines[ids[i]] or '', '^(%a+)|[^|]*|%d+|%d*|%d*|%d*|%a*|[^|]*|([^|]*)')
        lines[ids[i]] = nil
        if COUNTED_STATES[state] then right[state .. ':' .. lane] = (right[state .. ':' .. lane] or 0) + 1 end
      end
    end
  end
  return right
end

local function compare(right)
  local there = {}
  local flat = call('HGETALL', P .. 'states')
  for i = 1, #flat, 2 do
    there[flat[i]] = tonumber(flat[i + 1]) or 0
    right[flat[i]] = right[flat[i]] or 0
  end
  for field, n in pairs(right) do
    if n ~= there[field] and not (n == 0 and there[field] == nil) then
      found('state_miscounted', field, (there[field] or 0) .. ' instead of ' .. n)
      if mend and n > 0 then call('HSET', P .. 'states', field, n) end
    end
    if mend and n == 0 then call('HDEL', P .. 'states', field) end
  end
end

if call('ZCARD', P .. 'due') + call('ZCARD', P .. 'dead') > most then
  found('uncounted', 'each lane', 'due and dead jobs')
else
  compare(count())
end
return cmsgpack.pack(findings)
