-- Has the scripts write events for a while, and says where these stand. Whoever follows events calls it again before
-- the while is over; as long as nobody does, events cost the scripts nothing.
--
-- KEYS  1 prefix
-- ARGV  1 ms from now on for which somebody follows
-- Returns  1 since when every event was written, in ms, 2 id of the last entry, 3 id of the first one that is kept,
--       4 entries that were removed
local for_ms = whole(ARGV[1], 1)
if not for_ms then return redis.error_reply('ERR follow: ms') end

local key = P .. 'events'
local since = call('HGET', P .. 'conf', 'followed_since')
if not (since and followed) then
  since = NOW
  call('HSET', P .. 'conf', 'followed_since', since)
end
call('HSET', P .. 'conf', 'followed_until', text(now_ms + for_ms))
drop_gist()
call('PEXPIRE', key, for_ms)

local last, first, removed = text(now_ms - 1) .. '-18446744073709551615', '0-0', 0
if call('EXISTS', key) == 1 then
  local info = call('XINFO', 'STREAM', key)
  local facts = {}
  for i = 1, #info, 2 do facts[info[i]] = info[i + 1] end
  last, removed = facts['last-generated-id'], facts['entries-added'] - facts['length']
  if facts['first-entry'] then first = facts['first-entry'][1] end
end
return { since, last, first, removed }
