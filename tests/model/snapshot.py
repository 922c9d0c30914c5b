"""All that a partition holds, at one instant."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from tests.model.clock import compiled

DUMP = compiled(
    "dump",
    """#!lua flags=allow-oom
local P = KEYS[1]
local KINDS = { j = 'hash', b = 'text', r = 'text', e = 'text', idem = 'text', standby = 'text', seq = 'string',
  lane = 'zset', suspect = 'zset', flow = 'zset', ring = 'zset', heads = 'zset', ft = 'hash', fk = 'hash',
  due = 'zset', leases = 'zset', done = 'zset', dead = 'zset', flows = 'zset', stats = 'hash', waiting = 'hash',
  state = 'hash' }
local hashes, zsets, strings = {}, {}, {}
local keys = redis.call('KEYS', P .. '*')
for i = 1, #keys do
  local key = keys[i]
  local name = string.sub(key, #P + 1)
  local kind = KINDS[string.match(name, '^[^:]+')] or redis.call('TYPE', key).ok
  if kind == 'hash' then
    hashes[name] = redis.call('HGETALL', key)
  elseif kind == 'zset' then
    zsets[name] = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else
    strings[name] = kind == 'string' and redis.call('GET', key) or ''
    if string.sub(name, 1, 2) == 'b:' then strings[name] = string.match(redis.call('GET', key), '^[^\\n]*') end
  end
end
return cmsgpack.pack({ hashes, zsets, strings })
""",
)
"""Reads the partition whole; of bodies the facts alone, of results, logs and idempotency keys that they are there."""

_Flat = dict[str, list[str]]
_decoder = msgspec.msgpack.Decoder(tuple[_Flat | list[str], _Flat | list[str], dict[str, str] | list[str]])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every key without its prefix; `zsets` in their order, `places` where each member is, by ZSET name."""

    hashes: dict[str, dict[str, str]]
    zsets: dict[str, dict[str, int]]
    strings: dict[str, str]
    jobs: dict[str, dict[str, str]]
    places: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def zset(self, name: str) -> dict[str, int]:
        """Members by score, empty where there is none."""
        return self.zsets.get(name, {})

    def hash(self, name: str) -> dict[str, str]:
        return self.hashes.get(name, {})

    def differs_from(self, other: Snapshot) -> dict[str, tuple[object, object]]:
        """What is not the same in both, by its name."""
        mine, others = (each.hashes | each.zsets | each.strings for each in (self, other))
        names = sorted(name for name in mine.keys() | others.keys() if not name.startswith("test:"))
        return {name: (mine.get(name), others.get(name)) for name in names if mine.get(name) != others.get(name)}

    @property
    def seq(self) -> int:
        return int(self.strings.get("seq", 0))


_UNPLACED = ("ring:", "heads:", "flows:", "dead:", "dispatchers", "idle", "test:")


def parse(reply: bytes) -> Snapshot:
    """What `DUMP` returned."""
    hashes, zsets, strings = _decoder.decode(reply)
    # an empty Lua table comes as a list
    named = {name: dict(zip(flat[::2], flat[1::2], strict=True)) for name, flat in _items(hashes)}
    sets = {name: dict(zip(flat[::2], map(_whole, flat[1::2]), strict=True)) for name, flat in _items(zsets)}
    texts = strings if isinstance(strings, dict) else {}
    state = named.get("state", {})
    jobs = {
        name[2:]: named.get(f"j:{name[2:]}", {}) | _record(facts, state.get(name[2:]))
        for name, facts in texts.items()
        if name.startswith("b:")
    }
    snapshot = Snapshot(named, sets, texts, jobs)
    for name, members in sets.items():
        if not name.startswith(_UNPLACED):
            for member, score in members.items():
                if member[0] not in "~!":
                    snapshot.places.setdefault(member, []).append((name, score))
    return snapshot


_FACTS = ("flags", "target", "lane", "expires", "callback", "max", "created", "run_at", "key", "rank")
_STATE = ("status", "token", "attempt", "started", "previous", "updated")


def _record(facts: str, line: str | None) -> dict[str, str]:
    """A record's fields that say something, out of its facts and its line in `state` (lua/records.lua)."""
    if line is None:
        values = ["pending", "", "0", "", "", "", *_facts(facts)]
    else:
        values = line.split("|", 6)
        own = values.pop()
        if values[0] == "pending" and own.startswith("="):
            own = "|".join([*_facts(facts)[:-1], own[1:]])
        values += _facts(facts if own == _short(*_facts(facts)) else own)
    fields = dict(zip((*_STATE, *_FACTS), values, strict=True))
    fields["suspect"] = "1" if "s" in fields["flags"] else ""
    fields["elsewhere"] = "1" if "w" in fields["flags"] else ""
    assert ("k" in fields["flags"]) == (fields["key"] != ""), f"the flags of {fields} are wrong"
    return {name: value for name, value in fields.items() if value}


def _facts(line: str) -> list[str]:
    *most, rest = line.split("|", 8)
    return [*most, *rest.rsplit("|", 1)]


def _short(flags: str, target: str, lane: str, *others: str) -> str:
    """What a claim writes of facts that are those that the job was submitted with."""
    key = others[-2]
    return f"{flags}|{target}|{lane}|" + (f"={key}" if key else "")


def _items(table: _Flat | list[str]) -> list[tuple[str, list[str]]]:
    return list(table.items()) if isinstance(table, dict) else []


def _whole(score: str) -> int:
    number = int(float(score))
    assert number == float(score), f"a score that is no whole number: {score}"
    return number
