"""The real scripts on a real server, called as the store calls them, each followed by a look at all that is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.exceptions import NoScriptError, ResponseError

from gateway.keys import Keyspace
from gateway.store.refusals import is_unknown
from gateway.store.scripts import Arg, Script, script
from tests.model.clock import ADVANCE, EXPIRIES, Change, compiled, virtual
from tests.model.snapshot import DUMP, Snapshot, parse

_ADVANCE = compiled("advance", "#!lua flags=allow-oom\n" + ADVANCE)
_CLEAR = compiled(
    "clear",
    """#!lua flags=allow-oom
local keys = redis.call('KEYS', KEYS[1] .. '*')
for i = 1, #keys do redis.call('UNLINK', keys[i]) end
return #keys
""",
)

_COPY = compiled(
    "copy",
    f"""#!lua flags=allow-oom
local P, from = KEYS[1], ARGV[1]
local keys = redis.call('KEYS', from .. '*')
for i = 1, #keys do redis.call('COPY', keys[i], P .. string.sub(keys[i], #from + 1)) end
local expiries = redis.call('ZRANGE', from .. '{EXPIRIES}', 0, -1, 'WITHSCORES')
redis.call('DEL', P .. '{EXPIRIES}')
for i = 1, #expiries, 2 do
  redis.call('ZADD', P .. '{EXPIRIES}', expiries[i + 1], P .. string.sub(expiries[i], #from + 1))
end
return #keys
""",
)


class ScriptFailed(Exception):
    """A script that does not run, or refused its arguments: no breach of a rule, but a fault of script or test."""


class Engine:
    """One partition under test. Every method is one round trip, or two where the server forgot the script."""

    def __init__(
        self,
        client: redis.Redis,
        namespace: str,
        change: Change = lambda source: source,
        *,
        listening: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._change = change
        self._scripts: dict[str, Script] = {}
        self.prefix = Keyspace(namespace, 0).prefix
        self.said: Any = None
        """The reply to the last call."""
        # what wakes a dispatcher is heard by somebody
        self._hearing = client.pubsub()
        self._hearing.ssubscribe(*[f"{self.prefix}wake:{name}" for name in listening])

    def run(self, name: str, args: Sequence[Arg]) -> tuple[Any, Snapshot]:
        """Calls a script of the product: its reply, and what is stored then."""
        it = self._scripts.get(name)
        if it is None:
            it = self._scripts[name] = virtual(script(name), self._change)
        self.said, snapshot = self._with_dump(it, args)
        return self.said, snapshot

    def heard(self, name: str) -> bytes:
        """What that dispatcher was told by the last call, which is known to have told it something."""
        channel, told = f"{self.prefix}wake:{name}".encode(), None
        self._hearing.ping()
        while (message := self._hearing.get_message(timeout=5))["type"] != "pong":  # after all that came before it
            if message["type"] == "smessage" and message["channel"] == channel:
                told = message["data"]
        assert isinstance(told, bytes), f"{name} was told nothing"
        return told

    def become(self, other: Engine) -> None:
        """Holds what the other one does, and nothing else."""
        self._eval(_CLEAR, [])
        self._eval(_COPY, [other.prefix])

    def advance(self, now_us: int) -> None:
        """Moves the clock and lets what is past its time expire."""
        self._eval(_ADVANCE, [now_us])

    def body(self, job_id: str) -> bytes:
        """A job's stored body, without its facts."""
        found = self._client.get(f"{self.prefix}b:{job_id}")
        assert isinstance(found, bytes), f"{job_id} has no body"
        return found.partition(b"\n")[2]

    def clear(self, now_us: int) -> None:
        """Forgets everything in the namespace, and what functions may have kept; the clock is set."""
        self._client.execute_command("FUNCTION FLUSH")
        self._eval(_CLEAR, [])
        self.advance(now_us)

    def forget_registration(self) -> None:
        """What is registered is lost, as where an empty server took over."""
        self._client.hdel(f"{self.prefix}conf", "epoch")
        self._client.delete(f"{self.prefix}gist")

    def forget_scripts(self) -> None:
        """SCRIPT FLUSH, and FUNCTION FLUSH."""
        self._client.execute_command("SCRIPT FLUSH")
        self._client.execute_command("FUNCTION FLUSH")

    def _with_dump(self, it: Script, args: Sequence[Arg]) -> tuple[Any, Snapshot]:
        pipe = self._client.pipeline(transaction=False)
        pipe.execute_command(*_call(it), 1, self.prefix, *args)
        pipe.execute_command("EVALSHA", DUMP.sha, 1, self.prefix)
        reply, dump = pipe.execute(raise_on_error=False)
        if is_unknown(reply) or is_unknown(dump):
            if is_unknown(reply):
                reply = self._load(it, args)
            dump = self._eval(DUMP, [])
        if isinstance(reply, ResponseError):
            raise ScriptFailed(f"{it.name}: {reply}")
        return reply, parse(dump)

    def _load(self, it: Script, args: Sequence[Arg]) -> Any:
        if not it.is_function:
            return self._eval(it, args)
        self._client.execute_command("FUNCTION", "LOAD", it.library(1))
        return self._client.execute_command(*_call(it), 1, self.prefix, *args)

    def _eval(self, it: Script, args: Sequence[Arg]) -> Any:
        try:
            return self._client.execute_command("EVALSHA", it.sha, 1, self.prefix, *args)
        except NoScriptError:
            return self._client.execute_command("EVAL", it.source, 1, self.prefix, *args)


def _call(it: Script) -> tuple[str, str]:
    return ("FCALL", it.function) if it.is_function else ("EVALSHA", it.sha)
