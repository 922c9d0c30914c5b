-- One page of an index, from just after a (score, id) on, whether or not that entry still exists: it is put in for
-- an instant to find its place, so that equal scores neither repeat nor skip.
--
-- KEYS  1 prefix
-- ARGV  1 index (such as lane:default, due, leases, dead, done), 2 order (up or down), 3 score ('': from the start),
--       4 id, 5 at most
-- Returns  ids and scores in turn
local most = whole(ARGV[5], 1)
if not most then return redis.error_reply('ERR list: index order score id at_most') end
local index, down = P .. ARGV[1], ARGV[2] == 'down'
local first = 0
if ARGV[3] ~= '' then
  local member = ARGV[4]
  local score = call('ZSCORE', index, member)
  if score ~= ARGV[3] then
    -- gone, or moved since: a stand-in of the same name order finds the place without touching the entry itself
    if score then member = member .. '~' end
    call('ZADD', index, ARGV[3], member)
  end
  first = call(down and 'ZREVRANK' or 'ZRANK', index, member)
  if score ~= ARGV[3] then call('ZREM', index, member) else first = first + 1 end
end
return call(down and 'ZREVRANGE' or 'ZRANGE', index, first, first + most - 1, 'WITHSCORES')
