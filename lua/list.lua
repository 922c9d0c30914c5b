-- One page of an index, from just after a (score, id) on, whether or not that entry still exists.
--
-- KEYS  1 prefix
-- ARGV  1 index (such as lane:default, due, leases, dead, done), 2 order (up or down), 3 score ('': from the start),
--       4 id, 5 at most
-- Returns  ids and scores in turn
local most = whole(ARGV[5], 1)
if not most then return redis.error_reply('ERR list: index order score id at_most') end
local index, down = P .. ARGV[1], ARGV[2] == 'down'
local first = ARGV[3] ~= '' and rank_after(index, ARGV[3], ARGV[4], down) or 0
return call(down and 'ZREVRANGE' or 'ZRANGE', index, first, first + most - 1, 'WITHSCORES')
