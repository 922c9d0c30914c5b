-- Prepended to the submit, after the claim and the intake: what came goes straight to a dispatcher that waits for work.
--
-- A dispatcher in which nothing runs, and whose claim brought nothing, leaves its next one here (lua/claiming.lua). A submit
-- makes it in its place, and tells what it brought in what wakes the dispatcher. That is a hint as any other: the next claim
-- of the dispatcher has the same nonce, and brings the same jobs again.

local HANDED_MOST = 8      -- jobs of a submit: of more it matters how fast they are, not how soon the first one starts
local HANDED_BYTES = 65536 -- of their bodies in a message

-- Does anybody hear what wakes that dispatcher?
local function listens(id)
  local found = redis.pcall('PUBSUB', 'SHARDNUMSUB', P .. 'wake:' .. id)
  return (found[2] or 0) > 0
end

-- What the claim brought, as a message; none where the dispatcher is to claim by itself.
local function message_of(given)
  if given.err or taken_n == 0 or #moved > 0 or carried > HANDED_BYTES then return '' end
  local sizes = {}
  for i = 1, taken_n do sizes[i] = #given[REPLY_HEAD + i] end
  return 'claimed ' .. table.concat({ nonce, text(given[1]), given[2], NOW, given[4], table.concat(sizes, ',') }, ' ') .. '\n'
    .. table.concat(given, '', REPLY_HEAD + 1)
end

-- Has in hand what was accepted, in place of its lane, where all of it is for one and none of it for a flow; who follows is
-- told of each job by itself.
local function keep_in_hand()
  local terms = used[1]
  in_hand = nil
  if used[2] or not terms.list or followed then return end
  local found, own, texts, list = {}, {}, {}, terms.list
  for i = 1, #list / 2 do
    found[i], own[i], texts[i] = { list[2 * i], list[2 * i - 1] }, false, bodies[2 * i]
  end
  in_hand = { P .. 'lane:' .. terms.lane, found, list = list, own = own, bodies = texts }
  arriving = NONE
end

-- Places what was accepted, and wakes the dispatcher that has waited longest, with what its claim brings if it has left one.
local function hand_over()
  local idle = call('ZRANGE', K.idle, 0, 1, 'WITHSCORES')
  local first, since = idle[1], tonumber(idle[2])
  local standby = first and since < 0 and call('GETDEL', P .. 'standby:' .. first)
  standby = standby and listens(first) and cmsgpack.unpack(standby)
  if not standby or standby[1] ~= STANDBY_FORM then
    place_accepted()
    woken = first ~= nil
    return
  end
  if idle[3] then call('ZADD', K.idle, now_ms, first) end -- behind the others
  keep_in_hand()
  place_accepted()
  args = standby[2]
  local given = claim()
  if in_hand then place_in_hand() end
  hint('wake:' .. first, message_of(given))
  forget_taken()
end
