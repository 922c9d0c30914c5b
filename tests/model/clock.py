"""Scripts on a clock that stands until the test moves it: time and expiry are virtual, nothing else differs.

The one line of the prelude that reads the server's `TIME` reads a key of the partition instead, and what would make a
key expire notes its deadline in a ZSET, from which `ADVANCE` removes what is past.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from gateway.store.scripts import Script

CLOCK = "test:clock"
EXPIRIES = "test:expiries"

_CALL = "local call = redis.call\n"
_TIME = "local time = call('TIME')\n"
_VIRTUAL_TIME = f"""local clock = tonumber(redis.call('GET', P .. '{CLOCK}'))
local time = {{ floor(clock / 1000000), clock % 1000000 }}
"""
_VIRTUAL_CALL = f"""local function expire(key, ms)
  redis.call('ZADD', P .. '{EXPIRIES}', math.floor(redis.call('GET', P .. '{CLOCK}') / 1000) + ms, key)
end
local function call(...)
  local command, key, value, option, ms = ...
  if command == 'PEXPIRE' then return expire(key, value) end
  if command == 'PERSIST' then return redis.call('ZREM', P .. '{EXPIRIES}', key) end
  if command == 'SET' and option == 'PX' then
    expire(key, ms)
    return redis.call('SET', key, value)
  end
  if command == 'DEL' or command == 'GETDEL' or command == 'SET' then redis.call('ZREM', P .. '{EXPIRIES}', key) end
  return redis.call(...)
end
"""

ADVANCE = f"""
local P, now_us = KEYS[1], ARGV[1]
redis.call('SET', P .. '{CLOCK}', now_us)
local past = redis.call('ZRANGE', P .. '{EXPIRIES}', '-inf', '(' .. math.floor(now_us / 1000), 'BYSCORE')
for i = 1, #past do
  redis.call('DEL', past[i])
  redis.call('ZREM', P .. '{EXPIRIES}', past[i])
end
return #past
"""
"""Moves a partition's clock to ARGV[1] (us) and removes the keys whose time has run out by then."""

Change = Callable[[str], str]


def _unchanged(source: str) -> str:
    return source


def virtual(original: Script, change: Change = _unchanged) -> Script:
    """The same script on the virtual clock; `change` may break it on purpose."""
    source = original.source
    for line, ours in ((_CALL, _VIRTUAL_CALL), (_TIME, _VIRTUAL_TIME)):
        assert source.count(line) == 1, f"the prelude no longer has the line {line!r}"
        source = source.replace(line, ours)
    return compiled(original.name, change(source))


def compiled(name: str, source: str) -> Script:
    """A script of that source."""
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
