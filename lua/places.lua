-- Prepended, after the endings, to the scripts that walk an index page by page.

-- How many entries of an index lie up to a (score, member), whether or not that entry still exists: it is put in for an
-- instant to find its place, so that equal scores neither repeat nor skip.
local function rank_after(index, score, member, down)
  local now_at = call('ZSCORE', index, member)
  if now_at == score then return call(down and 'ZREVRANK' or 'ZRANK', index, member) + 1 end
  -- gone, or moved since: a stand-in of the same name order finds the place without touching the entry itself
  if now_at then member = member .. '~' end
  call('ZADD', index, score, member)
  local rank = call(down and 'ZREVRANK' or 'ZRANK', index, member)
  call('ZREM', index, member)
  return rank
end
