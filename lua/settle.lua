-- Writes attempts' outcomes back, each by its token's holder only. The token decides, not the clock: late work
-- that nobody reclaimed counts. A settle repeated after a lost reply is told that it is a duplicate.
--
-- KEYS  1 prefix
-- ARGV  1 jobs that succeeded without a result: a MessagePack array of arrays, each a token and the ids of jobs that it holds; 2 a batch of the others,
--       per job 7: id, token, outcome (succeeded, retry, dead, released, cancelled, parked), delay ms,
--       reason, result (JSON or ''), error (JSON or ''). Parked: the work goes on elsewhere for `delay ms`, or longer by its
--       heartbeats; `reason` is the delay of a retry should it not come to an end, in ms. A retry whose `reason` is a number
--       did not run, for its dispatcher does not know its target: its attempt is not spent, until that has gone on for so many ms
-- Returns  MessagePack, of those of the first, then of the second, that have not simply succeeded, in turn 2: its number, and the status it
--       has now (retrying, dead, pending, cancelled, parked), or duplicate, or lost
return function()
  local reply, fault = settle_all()
  if fault then return fault end
  commit()
  return reply
end
