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

-- Wakes the dispatcher that has waited longest, with what its claim brings if it has left one.
local function hand_over()
  local first = call('ZPOPMIN', P .. 'idle')[1]
  woken = first ~= nil
  local standby = first and call('GET', P .. 'standby:' .. first)
  standby = standby and listens(first) and cmsgpack.unpack(standby)
  if standby and standby[1] == STANDBY_FORM then
    args = standby[2]
    hint('wake:' .. first, message_of(claim()))
    forget_taken()
  elseif first and hint('wake:' .. first, '') > 0 then
    woken = false
  end
end
