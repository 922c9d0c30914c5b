"""Single lines of the scripts broken on purpose: the model must notice every one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import redis

from tests.model.driver import Tally
from tests.model.run import run


@dataclass(frozen=True, slots=True)
class Mutation:
    """What is broken, and the text that does it; `old` stands in the scripts' sources exactly once."""

    name: str
    old: str
    new: str

    def __call__(self, source: str) -> str:
        return source.replace(self.old, self.new)


MUTATIONS = (
    Mutation(
        "ring: a key that was served goes on at once",
        "while at > ring.next and turn_of(ring[at - 1]) > turn do",
        "while at > ring.next do",
    ),
    Mutation(
        "ring: a run goes beyond what its target may",
        "while ring[ring.next] and taken_n < upto and budget > 0",
        "while ring[ring.next] and taken_n < goal and budget > 0",
    ),
    Mutation(
        "ring: jobs of keys that are never blocked are not counted",
        "    spend_free(t, alike.free)\n",
        "",
    ),
    Mutation(
        "ring: a job that ran before is taken for one that did not",
        "if alike and body and ring.own[at] == false and q.name",
        "if alike and body and q.name",
    ),
    Mutation(
        "rounds: jobs are not counted",
        "    spend_free(t, n - before)\n",
        "",
    ),
    Mutation(
        "intake: a key that may be blocked is taken for one that may not",
        "    local k = not bare and key ~= '' and key_node(t, key)\n",
        "    local k, bare = nil, true\n",
    ),
    Mutation(
        "intake: a job under other terms is not looked at for the first of its key",
        "it.mixed, it.terms, terms.arrival = it.terms ~= nil, terms, it",
        "it.mixed, it.terms, terms.arrival = false, terms, it",
    ),
    Mutation(
        "intake: what comes for a key that waits already leaves it where it is, and one that does not",
        "  if n == 0 then return end\n  t.turn = turn",
        "  if true then return end\n  t.turn = turn",
    ),
    Mutation(
        "intake: jobs of a run do not count as waiting",
        "bodies_n, terms.n, terms.room.left = b, terms.n + i - first,",
        "bodies_n, terms.n, terms.room.left = b, terms.n,",
    ),
    Mutation(
        "intake: a run goes on under other terms",
        "if values[at + 6] ~= own or values[at + 3] ~= '' or",
        "if values[at + 3] ~= '' or",
    ),
    Mutation(
        "intake: a better first job of a key is not noticed",
        "if not head or tonumber(least) < tonumber(head) then",
        "if not head then",
    ),
    Mutation(
        "intake: a better first job of a key leaves it in its class",
        "        if not head or class_of(head) * SPAN ~= class then\n",
        "        if not head then\n",
    ),
    Mutation(
        "settle: what ran of a key that may be blocked is not counted back",
        "if flags == 'k' and (not t or t.bare == 1) then",
        "if flags == 'k' then",
    ),
    Mutation(
        "ring: a job with a key leaves its key's count as it is",
        "unspend(it.target, it.key, nil, it.n)",
        "unspend(it.target, '', nil, it.n)",
    ),
    Mutation(
        "ring: a key that is alone takes more than it may",
        "    most = left_of(k, most, t.ordered == 1 and 1 or t.key_concurrency, t.key_interval, t.key_burst, "
        "t.key_quota)\n",
        "",
    ),
    Mutation(
        "keys: what runs of a key when its target gains limits of keys is not counted",
        "  k.running = k.running + counted\n",
        "  k.running = k.running + new\n",
    ),
    Mutation(
        "keys: where a key waits when its target gains limits of keys is not seen",
        "  for i = 1, not stored and target.bare == 2 and #LANES or 0 do\n",
        "  for i = 1, 0 do\n",
    ),
    Mutation(
        "begin: where jobs stood in an earlier call is taken for where they stand",
        "at_begin(function()\n  lines, written,",
        "lines = {}\nat_begin(function()\n  local _\n  _, written,",
    ),
    Mutation(
        "begin: the limits of an earlier call are taken for those that hold",
        "  target_nodes, key_nodes, touched_targets,",
        "  target_nodes, key_nodes, touched_targets = target_nodes or {}, key_nodes or {}, {}\n"
        "  local _, __\n  _, __, touched_targets,",
    ),
    Mutation(
        "begin: a lane goes on as it was once it is paused",
        "'lanes_paused', list)\ndrop_gist()\n",
        "'lanes_paused', list)\n",
    ),
    Mutation(
        "submit: what was not taken in after all stays listed",
        "  lines, written, written_n = {}, {}, 0\n",
        "",
    ),
    Mutation(
        "claim: what was taken out of a lane and not given is lost",
        "          if not flown[members[i]] then call('ZADD', popped[1], found[i][2], members[i]) end\n",
        "",
    ),
    Mutation(
        "claim: what becomes ready in it is not in its lane yet",
        "      restore() -- what has become ready stands in the lanes by then\n",
        "",
    ),
    Mutation(
        "limits: a target that gains flows is taken for one that has none",
        "  call('HSET', P .. 'conf', 'flows', #flows <= FLOWS_BYTES and flows or MANY)\n",
        "",
    ),
    Mutation(
        "begin: a claim's leases are taken again by the next",
        "  taken, taken_n, carried, leases, ids, bodies = "
        "{ -1, 0, now_ms, '', moved, 0, nil }, 0, 0, { nil, nil }, { nil }, {}\n",
        "  taken, taken_n, carried, leases, ids, bodies = "
        "{ -1, 0, now_ms, '', moved, 0, nil }, 0, 0, leases or {}, { nil }, {}\n",
    ),
    Mutation(
        "breaker: what fails while it is open is spent",
        "if t.open_until > now_us then return failed end",
        "if t.open_until > now_us then return false end",
    ),
    Mutation(
        "breaker: half open, any number of jobs may try",
        "return is_half_open(t) and 1 or t.concurrency",
        "return t.concurrency",
    ),
    Mutation(
        "breaker: an older attempt speaks for the one that tries",
        "if id ~= b.probe then return failed end",
        "",
    ),
    Mutation(
        "settle: any token will do",
        "if it and it.token == token and outcome",
        "if it and outcome",
    ),
    Mutation(
        "records: any token holds a job",
        "return line and match(line, '^running|([^|]*)|') == token",
        "return line and find(line, '^running|')",
    ),
    Mutation(
        "settle: a cancellation that was asked for is forgotten",
        "if has_flag(job, 'q') and (outcome == 'retry' or outcome == 'released' or outcome == 'parked') then "
        "outcome = 'cancelled' end",
        "",
    ),
    Mutation(
        "settle: work that goes on elsewhere loses its deadline",
        "if status == 'parked' then unlease_n = unlease_n - 1 end",
        "",
    ),
    Mutation(
        "settle: a parked job that is parked again begins anew",
        "  if has_flag(job, 'w') then return 'parked' end\n",
        "",
    ),
    Mutation(
        "extend: a renewal moves a parked job's deadline",
        "if not find(flags, 'w', 1, true) then",
        "if true then",
    ),
    Mutation(
        "heartbeat: any token is a sign of life",
        "if not job or not is_held(id, token) or not has_flag(job, 'w') then return 0 end",
        "if not job or not has_flag(job, 'w') then return 0 end",
    ),
    Mutation(
        "reap: a parked job's end is a lost dispatcher",
        "if has_flag(job, 'w') then return end_parked(id, job) end",
        "",
    ),
    Mutation(
        "cancel: a parked job is only asked",
        "local parked = status == 'running' and has_flag(job, 'w')",
        "local parked = false",
    ),
    Mutation(
        "settle: an ordered key does not wait for its retry",
        "unspend(job.target, job.key, t and t.ordered == 1 and id or nil)",
        "unspend(job.target, job.key)",
    ),
    Mutation(
        "settle: a released job loses its place",
        "  make_ready(id, job.lane, job.target, job.key, job.rank, has_flag(job, 's'))\n  woken = true\n",
        "  make_ready(id, job.lane, job.target, job.key, text(100 * SPAN + new_seq()), has_flag(job, 's'))\n"
        "  woken = true\n",
    ),
    Mutation(
        "submit: a job that is there already is taken in again",
        "local reply = status and { i, 'accepted', id, status } or hash ~= '' and repeated(i, hash, fingerprint)",
        "local reply = hash ~= '' and repeated(i, hash, fingerprint)",
    ),
    Mutation(
        "unspend: the target's running count stays",
        "t.running = math.max(0, t.running - (n or 1))",
        "",
    ),
    Mutation(
        "unspend: the key's running count stays",
        "k.running = math.max(0, k.running - (n or 1))",
        "",
    ),
    Mutation(
        "spend: a start uses up no token",
        "if t.interval > 0 then t.tat = math.max(t.tat, now_us) + n * t.interval end",
        "",
    ),
    Mutation(
        "spend: a start uses up no quota",
        "t.used = t.used + (t.quota > 0 and n or 0)",
        "",
    ),
    Mutation(
        "promote: a timer that went off stays armed",
        "    t.timer = 0\n    touch_target(t)\n  else",
        "    touch_target(t)\n  else",
    ),
    Mutation(
        "promote: a retry takes its old place",
        "    job.rank = text(class_of(job.rank) * SPAN + seq)\n",
        "",
    ),
    Mutation(
        "promote: a job for later takes its old place",
        "format(WHOLE, rank - rank % SPAN + seq + at)",
        "format(WHOLE, rank)",
    ),
    Mutation(
        "promote: a job for later does not count as waiting",
        "  stand('scheduled', lane, first - at)\n  waiting(lane, target, at - first)\n",
        "  stand('scheduled', lane, first - at)\n",
    ),
    Mutation(
        "promote: a job for later passes its target's flow by",
        " or target_node(target) then return 0 end",
        " then return 0 end",
    ),
    Mutation(
        "restore: a target that unblocks is not noticed",
        "t.blocked = blocked and 1 or 0\n",
        "t.blocked = 0\n",
    ),
    Mutation(
        "restore: a key's lanes are not noted for its target",
        "    lane_changed(k.target, lane)\n",
        "",
    ),
    Mutation(
        "keys: a record that lives on expires",
        "if k.stored and k.expiring then call('PERSIST', key) end",
        "",
    ),
    Mutation(
        "keys: an idle key forgets its tokens",
        "if keep_us > 0 then",
        "if false then",
    ),
    Mutation(
        "keys: a new head of a better class does not move the key",
        "if not now_at or class_of(now_at) ~= class then",
        "if not now_at then",
    ),
    Mutation(
        "cancel: an ordered key waits for a job that is cancelled",
        "    unhold(job.target, job.key, id)\n  else\n    return 'over'",
        "  else\n    return 'over'",
    ),
    Mutation(
        "cancel: the job still counts as waiting",
        "  waiting(lane, target, -1)\n  if call('ZREM', P .. 'lane:' .. lane, id) == 1 then return end",
        "  if call('ZREM', P .. 'lane:' .. lane, id) == 1 then return end",
    ),
    Mutation(
        "claim: a lost reply is answered with other jobs",
        "if last[1] == nonce then",
        "if false then",
    ),
    Mutation(
        "claim: what is asked for again comes under what is left of its lease",
        "leases[#leases + 1], leases[#leases + 2] = DEADLINE, had[i] end",
        "local _ end",
    ),
    Mutation(
        "claim: what is under way beside it is forgotten",
        "fields = { 'nonce' .. place, nonce, 'ids' .. place,",
        "fields = { 'nonce', nonce, 'ids',",
    ),
    Mutation(
        "claim: what a submit claimed in its place is lost to a claim that is repeated",
        "if last[1] and last[1] == next_nonce then",
        "if false then",
    ),
    Mutation(
        "claim: what stands by is not taken away by the next claim",
        "    call('DEL', P .. 'standby:' .. dispatcher)\n",
        "    local _\n",
    ),
    Mutation(
        "submit: the claim that it makes is not the one that stands by",
        "own[2], own[4], own[8] = next_nonce, '0', '0'",
        "own[4], own[8] = '0', '0'",
    ),
    Mutation(
        "submit: what it has in hand passes by what waits",
        "return not has_work() and",
        "return (not has_work() or true) and",
    ),
    Mutation(
        "submit: what it has in hand passes by what has become due in a flow",
        "    restore() -- what has just become due",
        "    -- what has just become due",
    ),
    Mutation(
        "submit: what it has in hand is given though its lane is paused",
        " and lane_by[in_hand[1]]\n",
        " and rawset(lane_by, in_hand[1], string.sub(in_hand[1], #P + 6))\n",
    ),
    Mutation(
        "submit: what it has in hand and does not give is lost",
        "  if in_hand then place_in_hand() end\n",
        "",
    ),
    Mutation(
        "submit: what came out of its hand goes to the front of its lane",
        "found[i], own[i], texts[i] = { list[2 * i], list[2 * i - 1] }",
        "found[i], own[i], texts[i] = { list[2 * i], 0 }",
    ),
    Mutation(
        "exchange: what the settle has changed is not in its lanes before the claim",
        "  commit()\n  begin_anew()\n",
        "  begin_anew()\n",
    ),
    Mutation(
        "exchange: what the claim has changed is not in its lanes",
        "  local given = claim_read()\n  commit()\n",
        "  local given = claim_read()\n",
    ),
    Mutation(
        "claim: any number of suspects at once",
        "  if suspect then suspects_left = 0 end\n",
        "",
    ),
    Mutation(
        "claim: a key stays first in its ring",
        "  queue_changed(k, lane, verdict == 'taken')\n",
        "  queue_changed(k, lane)\n",
    ),
    Mutation(
        "claim: an expired job spends its key's turn",
        "  queue_changed(k, lane, verdict == 'taken')\n",
        "  queue_changed(k, lane, true)\n",
    ),
    Mutation(
        "claim: an expired job spends a token",
        "      news = news or job.callback ~= '' -- it may have a callback\n",
        "      news = news or job.callback ~= ''\n"
        "      if target_node(target) then spend(target_node(target), key_node(target_node(target), job.key)); "
        "unspend(target, job.key) end\n",
    ),
    Mutation(
        "claim: a key's limits are not looked at again",
        "local head = key_blocked(k) and {} or call(",
        "local head = call(",
    ),
    Mutation(
        "claim: a reference keeps no order in the window",
        "while at <= #members and ranks[at] < rank do at = at + 1 end",
        "",
    ),
    Mutation(
        "claim: what has come in meanwhile is not seen",
        "      if news then\n        kept, news = 0, false\n      elseif",
        "      news = false\n      if",
    ),
    Mutation(
        "claim: the lanes in reverse",
        "  walk(lanes[i], n)\n",
        "  walk(lanes[#lanes + 1 - i], n)\n",
    ),
    Mutation(
        "reap: the lost holder's token stays good",
        "  job.token = ''\n  if has_flag",
        "  if has_flag",
    ),
    Mutation(
        "replay: the job remembers that it was to expire",
        "  job.expires = ''\n",
        "",
    ),
    Mutation(
        "finish: no callback",
        "  notify(id, job, status, reason, result, error)\n",
        "",
    ),
    Mutation(
        "claim: a target's earlier jobs are served when a claim meets them",
        "  if t.earlier == 0 or not ring[2] then return ring[1] end\n",
        "  if true then return ring[1] end\n",
    ),
    Mutation(
        "flow_control: suspects wait where they came before there were limits",
        "    if job and job.target == target then\n      unmake_ready(",
        "    if false then\n      unmake_ready(",
    ),
    Mutation(
        "flow_control: what runs already is not counted",
        "t.running = t.running + new\n",
        "\n",
    ),
    Mutation(
        "flow_control: the old timer stays",
        "  call('ZREM', P .. 'due', '~' .. target)\n  t.timer = 0\n",
        "",
    ),
    Mutation(
        "commit: nobody is woken",
        "if woken then wake_one() end",
        "",
    ),
    Mutation(
        "ahead: it is given before what is there",
        "if taken_n == 0 and n > 0 and budget > 0 and next_due_us",
        "if taken_n < n and budget > 0 and next_due_us",
    ),
    Mutation(
        "ahead: by more than was asked for",
        "next_due_us < now_us + ahead_us then",
        "next_due_us < now_us + 4 * ahead_us then",
    ),
    Mutation(
        "ahead: leases begin at once",
        "    if hold_us > 0 then set_clock(now_us + hold_us) end\n",
        "",
    ),
    Mutation(
        "ahead: nobody is told to hold it",
        "    if taken_n > 0 then taken[6] = hold_us end\n",
        "",
    ),
    Mutation(
        "ahead: what is due a little later comes too",
        "text(ms * 1000 + 999)",
        "text(ms * 1000 + 3999)",
    ),
    Mutation(
        "ahead: a target's limits do not matter",
        "not find(flags, 's', 1, true) and not target_node(target)",
        "not find(flags, 's', 1, true)",
    ),
    Mutation(
        "ahead: what has expired by then starts",
        "(expires == '' or tonumber(expires) > ms)",
        "true",
    ),
    Mutation(
        "ahead: a lane that is paused is served",
        "for i = 1, #lanes do lane_at[lanes[i]] = i end",
        "for i = 1, #LANES do lane_at[LANES[i]] = i end",
    ),
    Mutation(
        "ahead: it stays among what is due",
        "    call_many('ZREM', K.due, ids)\n",
        "",
    ),
    Mutation(
        "ahead: lanes and priorities do not matter",
        "    table.sort(order)\n",
        "",
    ),
    Mutation(
        "ahead: it is not counted",
        "      stand('scheduled', lane, before - taken_n)\n",
        "",
    ),
    Mutation(
        "ahead: weights do not matter",
        " or #entries > n and (#free < #entries or weight_sum > 0) then return end",
        " or #entries > n and #free < #entries then return end",
    ),
    Mutation(
        "claim: a repeat is not held",
        "  if had[1] then hold_again(had[1]) end\n",
        "",
    ),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Was the breach noticed, after how many lives, and what gave it away."""

    mutation: Mutation
    noticed: bool
    examples: int
    said: str


def judge(made: redis.Redis, mutation: Mutation, *, examples: int, steps: int, seed_from: int) -> Verdict:
    """Lives the broken engine until a check fails, or an answer cannot even be read."""
    tally = Tally()
    try:
        run(made, examples=examples, steps=steps, seed_from=seed_from, change=mutation, shrink=False, tally=tally)
    except (AssertionError, ValueError, IndexError) as error:
        return Verdict(mutation, True, tally.examples, str(error).splitlines()[0])
    return Verdict(mutation, False, tally.examples, "nothing was noticed")


def judge_all(made: redis.Redis, *, examples: int, steps: int, seed_from: int) -> Iterator[Verdict]:
    """Every mutation in turn."""
    for mutation in MUTATIONS:
        yield judge(made, mutation, examples=examples, steps=steps, seed_from=seed_from)
