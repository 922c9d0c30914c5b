-- Gives submits of the outbox that are to be handed over to other partitions, the longest waiting first, and hides each
-- for a while: what is not confirmed until then comes up again, for whoever asks.
--
-- KEYS  1 prefix
-- ARGV  1 at most, 2 ms for which they are hidden, 3 a batch, per submit 1: id of one that was handed over
-- Returns  1 is there more (0 or 1), then per submit 3: id, ms since it was submitted, the submit (MessagePack)
local most, hidden_ms, done = whole(ARGV[1], 1), whole(ARGV[2], 1), batch(3, 1)
if not (most and hidden_ms and done) then return redis.error_reply('ERR outbox: at_most hidden_ms batch') end
for i = 1, #done do
  if type(done[i][1]) ~= 'string' then return redis.error_reply('ERR outbox: id ' .. i .. ' is no text') end
end

for i = 1, #done do
  call('ZREM', P .. 'outbox', done[i][1])
  call('UNLINK', P .. 'o:' .. done[i][1])
end
local ids = call('ZRANGE', P .. 'outbox', '-inf', NOW, 'BYSCORE', 'LIMIT', 0, most + 1)
local out = { #ids > most and 1 or 0 }
for i = 1, math.min(#ids, most) do
  local kept = call('GET', P .. 'o:' .. ids[i])
  if kept then
    local entry = cmsgpack.unpack(kept)
    out[#out + 1] = ids[i]
    out[#out + 1] = math.max(0, now_ms - entry[1])
    out[#out + 1] = cmsgpack.pack(entry[2])
    call('ZADD', P .. 'outbox', now_ms + hidden_ms, ids[i])
  else
    call('ZREM', P .. 'outbox', ids[i])
  end
end
return out
