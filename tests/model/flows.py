"""The rules of flows, checked on what is stored: what is ready stands in line, and what is blocked has a waker."""

from __future__ import annotations

from tests.model.clock import EXPIRIES
from tests.model.jobs import Job
from tests.model.limits import LOOK_AGAIN_US, Node, Pace, Target
from tests.model.model import Broken, Model
from tests.model.snapshot import Snapshot

SPAN = 2**45
Queues = dict[tuple[str, str], dict[str, int]]


def check_flows(model: Model, snapshot: Snapshot, prefix: str) -> None:
    """Both rules of flows.lua, for every target and key; their state agrees with the model."""
    queues: dict[str, Queues] = {name: {} for name in model.targets}
    for name, members in snapshot.zsets.items():
        if name.startswith("flow:"):
            _, lane, of_target, key = name.split(":", 3)
            if of_target not in queues:
                raise Broken(f"{name} is of a target without flows")
            queues[of_target][lane, key] = members
    for lane in model.lanes:
        there = snapshot.zset(f"flows:{lane}").keys()
        right = {f"{name}:{key}" for name, of in queues.items() for in_lane, key in of if in_lane == lane}
        if there != right:
            raise Broken(f"flows:{lane} lists {there}, there are {right}")
    timers: dict[str, int] = {}
    for target in model.targets.values():
        blocked = _check_keys(model, snapshot, target, queues[target.name], timers, prefix)
        _check_target(model, snapshot, target, queues[target.name], blocked, timers)
    armed = {member[1:]: score for member, score in snapshot.zset("due").items() if member[0] == "~"}
    if armed != timers:
        raise Broken(f"timers in due and in their nodes differ: {set(armed.items()) ^ set(timers.items())}")
    for name in snapshot.hashes:
        if name.startswith("fk:"):
            target_name, _, key = name[3:].partition(":")
            if target_name not in model.targets or not key:
                raise Broken(f"{name} is of no key")


def _check_keys(
    model: Model, snapshot: Snapshot, target: Target, queues: Queues, timers: dict[str, int], prefix: str
) -> set[str]:
    """The keys that are blocked, each with its record as it must be."""
    blocked = set()
    names = {key for _, key in queues} | target.keys.keys()
    for key in names - {""}:
        path = f"{target.name}:{key}"
        node, record = target.key(key), snapshot.hash(f"fk:{path}")
        if target.bare == 1:
            if record:
                raise Broken(f"fk:{path} is of a key that is never blocked: {record}")
            continue
        lanes = {lane for lane, other in queues if other == key}
        late = None if target.keys_changed_us is None else target.keys_changed_us + LOOK_AGAIN_US
        _take_over(model, node, record, target.pace("key_"), path, changed=late is not None)
        if node.timer:
            timers[path] = node.timer
            _check_timer(model, path, node, node.free_at(target.pace("key_"), model.now_us), late or 0)
        elif late is None and not target.key_full(key) and not node.held:
            _has_tokens(model, path, node.free_at(target.pace("key_"), model.now_us))
        if node.held or target.key_full(key) or node.timer:
            blocked.add(key)
        if target.bare == 2 and not record and not (node.running or node.held or node.timer):
            continue  # it only waits, since before
        _check_key_record(snapshot, f"fk:{path}", record, lanes, key in blocked)
        _check_expiry(model, snapshot, target, key, lanes, prefix)
        if node.held:
            _check_held(model.jobs.get(node.held), path)
    return blocked


def _take_over(model: Model, node: Node, record: dict[str, str], pace: Pace, path: str, *, changed: bool) -> None:
    """Compares a node with its record; where a changed limit may have cut its clock, takes that over."""
    get = record.get
    if int(get("running", 0)) != node.running or get("held", "") != node.held:
        raise Broken(f"{path}: {get('running')} running, held {get('held')!r}; it is {node.running}, {node.held!r}")
    node.timer = int(get("timer", 0))
    tat, used, window_at = (int(get(name, 0)) for name in ("tat", "used", "window_at"))
    if pace.interval and max(tat, model.now_us) != max(node.tat, model.now_us):
        cut = changed and tat == min(node.tat, model.now_us + pace.burst * pace.interval)
        if not cut:
            raise Broken(f"{path}: its clock stands at {tat}, not at {node.tat} (now {model.now_us})")
    if pace.quota:
        this = model.now_us // pace.window * pace.window
        there, right = (used if window_at == this else 0), (node.used if node.window_at == this else 0)
        if there != right:
            raise Broken(f"{path}: {there} of its quota used, not {right}")
    node.tat, node.used, node.window_at = tat, used, window_at


def _check_timer(model: Model, path: str, node: Node, free_at: int, late: int) -> None:
    if node.timer > max(free_at, model.now_us, late):
        raise Broken(f"{path}: its timer looks at {node.timer}, it is free at {free_at} (now {model.now_us})")
    if node.timer > model.now_us + LOOK_AGAIN_US:
        raise Broken(f"{path}: its timer looks at {node.timer}, too late from {model.now_us}")


def _has_tokens(model: Model, path: str, free_at: int) -> None:
    if free_at:
        raise Broken(f"{path} is out of tokens until {free_at} (now {model.now_us}), and has no timer")


def _check_key_record(snapshot: Snapshot, name: str, record: dict[str, str], lanes: set[str], blocked: bool) -> None:
    if set(filter(None, record.get("lanes", "").split(","))) != lanes:
        raise Broken(f"{name} says that it waits in {record.get('lanes')!r}, it does in {lanes}")
    if record and (record.get("blocked", "0") == "1") != blocked:
        raise Broken(f"{name} says blocked {record.get('blocked')}, it is {blocked}")


def _check_expiry(model: Model, snapshot: Snapshot, target: Target, key: str, lanes: set[str], prefix: str) -> None:
    """A key's record is there while it is needed, for good while the key lives, and never longer than its clocks."""
    node, pace = target.key(key), target.pace("key_")
    name = f"fk:{target.name}:{key}"
    until_ms = snapshot.zset(EXPIRIES).get(prefix + name)
    live = bool(node.running or node.held or lanes or node.timer)
    if live and (name not in snapshot.hashes or until_ms is not None):
        raise Broken(f"{name} lives, and its record is missing or will expire: {until_ms}")
    if not live and name in snapshot.hashes and until_ms is None:
        raise Broken(f"{name} is left of an idle key")
    if not live and until_ms is not None and target.keys_changed_us is None:
        needed_us = node.tat if pace.interval else 0
        if pace.quota and node.used:
            needed_us = max(needed_us, node.window_at + pace.window)
        if needed_us > model.now_us and (until_ms + 1) * 1000 < needed_us:  # it goes when its ms is over
            raise Broken(f"{name} expires at {until_ms} ms, before its clocks at {needed_us} us")


def _check_held(job: Job | None, path: str) -> None:
    if job is None or job.status != "retrying":
        raise Broken(f"{path} waits for {job}, which will not come back")


def _check_target(
    model: Model, snapshot: Snapshot, target: Target, queues: Queues, blocked_keys: set[str], timers: dict[str, int]
) -> None:
    record = snapshot.hash(f"ft:{target.name}")
    if int(record.get("bare", 0)) != target.bare:
        raise Broken(f"{target.name} has keys of sort {record.get('bare')}, not {target.bare}")
    node = target.node
    _check_breaker(snapshot, target, record)
    _take_over(model, node, record, target.pace(), target.name, changed=False)
    if node.timer:
        timers[target.name] = node.timer
        _check_timer(model, target.name, node, target.free_at(model.now_us), 0)
    elif not target.paused and not target.full():
        _has_tokens(model, target.name, target.free_at(model.now_us))
    blocked = bool(target.paused or target.full() or node.timer)
    if (record.get("blocked", "0") == "1") != blocked:
        raise Broken(f"{target.name} says blocked {record.get('blocked')}, it is {blocked}")
    _check_earlier(model, snapshot, target, record)
    stands_in = set()
    for lane in model.lanes:
        ready = {
            key: min(members.values())
            for (in_lane, key), members in queues.items()
            if in_lane == lane and key not in blocked_keys
        }
        _check_ring(snapshot, f"{lane}:{target.name}", ready)
        right = min(ready.values()) if ready and not blocked else None
        there = snapshot.zset(f"lane:{lane}").get(f"~{target.name}")
        if there != right:
            raise Broken(f"~{target.name} stands in {lane} at {there}, not at {right}")
        if right is not None:
            stands_in.add(lane)
    if set(filter(None, record.get("lanes", "").split(","))) != stands_in:
        raise Broken(f"{target.name} says that it stands in {record.get('lanes')!r}, it does in {stands_in}")


def _check_earlier(model: Model, snapshot: Snapshot, target: Target, record: dict[str, str]) -> None:
    """What came before the target had limits lies in the lane itself only above the rank up to which it is in flows."""
    gathered = snapshot.hash(f"earlier:{target.name}")
    if int(record.get("earlier", 0)) != len(gathered):
        raise Broken(f"{target.name} counts {record.get('earlier')} lanes with earlier jobs, they are {gathered}")
    for job in model.with_status("pending"):
        if job.plain and job.target == target.name and job.rank <= float(gathered.get(job.lane, "inf")):
            raise Broken(f"{job.job_id} of {target.name} came earlier, and is in {job.lane} itself: {gathered}")


def _check_breaker(snapshot: Snapshot, target: Target, record: dict[str, str]) -> None:
    beside = snapshot.hash(f"fb:{target.name}")
    names = ("window_at", "good", "bad", "trips")
    there = [*(int(record.get(name, 0)) for name in ("paused", "open_until")), *(int(beside.get(n, 0)) for n in names)]
    right = [*(target.fields.get(name, 0) for name in ("paused", "open_until"))]
    right += [getattr(target.breaker, name) for name in names]
    if there != right or beside.get("probe", "") != target.breaker.probe:
        raise Broken(
            f"the breaker of {target.name} stands at {there}, {beside.get('probe')}, not at {right}, {target.breaker}"
        )
    if ("opened" in beside) != (target.breaker.trips > 0) or ("gone" in beside) != (right[0] == 2):
        raise Broken(f"{target.name} is disabled since {beside}, its breaker is {target.breaker}, paused {right[0]}")


def _check_ring(snapshot: Snapshot, path: str, ready: dict[str, int]) -> None:
    heads, ring = snapshot.zset(f"heads:{path}"), snapshot.zset(f"ring:{path}")
    if heads != ready:
        raise Broken(f"heads:{path} is {heads}, it must be {ready}")
    if ring.keys() != ready.keys():
        raise Broken(f"ring:{path} holds {ring.keys()}, it must hold {ready.keys()}")
    for key, turn in ring.items():
        if turn // SPAN != ready[key] // SPAN:
            raise Broken(f"ring:{path} has {key!r} in class {turn // SPAN}, its head is of {ready[key] // SPAN}")
