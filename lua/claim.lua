-- Gives a dispatcher up to n jobs under a lease: first promotes what is due, then takes from the lanes in order,
-- by rank in each. A claim repeated with the same nonce gets the same jobs again, so a lost reply may be resent.
-- A dispatcher may have two claims under way, each in a place of its own, and until a claim is answered none other in its
-- place: of each place the last claim is remembered.
--
-- KEYS  1 prefix
-- ARGV  1 dispatcher id, 2 nonce, 3 n, 4 suspects allowed (0 or 1), 5 place (1 or 2), 6 nonce of the claim that a submit may make in
--       the dispatcher's place, should this one bring nothing (''; none): where its answer is not heard of, it comes again as the next
--       claim's own, 7 with commas, since it is the same from claim to claim: lease ms, promote at most, heartbeat ms, then per lane 3,
--       in order: name, weight (0 for all: strict order), most ms its first job waits before it goes ahead of every lane (0: as long
--       as it takes); 8 us by which jobs may be given before they are due (0: never), if there is nothing else
-- Returns  1 us until the next due job (-1: none), 2 is there more to claim (0 or 1), 3 the time in ms, 4 ids with commas, 5 of the
--       jobs that are no longer as they were submitted in turn 2: number and what is new (attempt, previous delay ms,
--       when it became ready again in ms and facts, with bars between them), 6 us for which these jobs are to be held, since
--       they are due only then (0: none), which is at the time in 3; then per job its body with its first facts
return function()
  local given = claim()
  commit()
  forget_taken()
  return given
end
