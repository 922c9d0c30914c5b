-- Notes deliveries, or requests that did not verify, of triggers: each in its trigger's list, of which only the last are
-- kept, and with it what its oldest entries held. All of it goes when nothing came for a while.
--
-- KEYS  1 prefix
-- ARGV  1 for how many ms all is kept, then per entry 5: list (deliveries or rejections), trigger, how many are kept (1 to
--       10000), summary (JSON), detail (facts as one JSON line, a line break, the body; or '')
-- Returns  per entry its id
local ttl = whole(ARGV[1], 1)
if not ttl or #ARGV < 6 or (#ARGV - 1) % 5 ~= 0 then
  return redis.error_reply('ERR delivery_record takes a time in ms, and 5 values an entry')
end
for i = 2, #ARGV, 5 do
  local keep = whole(ARGV[i + 2], 1)
  if not keep or keep > 10000 or (ARGV[i] ~= 'deliveries' and ARGV[i] ~= 'rejections') then
    return redis.error_reply('ERR delivery_record: an entry has a list and a number of entries to keep')
  end
end

local ids = {}
for i = 2, #ARGV, 5 do
  local trigger, keep, detail = ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 4]
  local key, of = P .. ARGV[i] .. ':' .. trigger, P .. 'delivery:' .. trigger .. ':'
  local id = call('XADD', key, '*', 's', ARGV[i + 3])
  call('PEXPIRE', key, ttl)
  if detail ~= '' then call('SET', of .. id, detail, 'PX', ttl) end
  local over = call('XLEN', key) - keep
  if over > 0 then
    for _, entry in ipairs(call('XRANGE', key, '-', '+', 'COUNT', over)) do call('DEL', of .. entry[1]) end
    call('XTRIM', key, 'MAXLEN', keep)
  end
  ids[#ids + 1] = id
end
return ids
