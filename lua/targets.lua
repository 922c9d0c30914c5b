-- The state of targets: what waits, what runs, what stops them.
--
-- KEYS  1 prefix
-- ARGV  targets
-- Returns  MessagePack, per target 6: has it flows, running, paused, why it is blocked ('': it is not), pending by lane,
--       since when it is disabled in ms (0: it is not)
local out = {}
for i = 1, #ARGV do
  local t = target_node(ARGV[i])
  local since = call('HMGET', P .. 'fb:' .. ARGV[i], 'opened', 'gone')
  local pending = {}
  for at = 1, #LANES do
    local n = tonumber(call('HGET', P .. 'waiting', LANES[at] .. ':' .. ARGV[i]) or 0)
    if n > 0 then pending[LANES[at]] = n end
  end
  out[i] = { t and true or false, t and t.running or 0, t and t.paused > 0 or false, t and target_waits_on(t) or '',
    pending, math.min(tonumber(since[1]) or math.huge, tonumber(since[2]) or math.huge) }
  if out[i][6] == math.huge then out[i][6] = 0 end
end
return cmsgpack.pack(out)
