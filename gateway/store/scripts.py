"""The Lua scripts: read once, prefixed by the prelude, called by their hash and loaded where the server forgot them."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError

from gateway.store.client import Client
from gateway.store.functions import load, refused, takes_functions
from gateway.store.link import Arg as Arg
from gateway.store.refusals import is_unknown, store_error, takes_none

PRELUDE = ("prelude", "records", "limits", "flows", "endings")
"""What every script begins with, in this order."""

_CLAIM = ("due", "taking", "turns", "rings", "ways", "walks", "ahead", "claiming")
_SETTLE = ("breaker", "retries", "settling")

PARTS = {
    "submit": _CLAIM,
    **dict.fromkeys(("schedule_fire", "forward"), ("intake",)),
    **dict.fromkeys(("list", "list_queued", "replay_some"), ("places",)),
    **dict.fromkeys(("lookup", "targets"), ("reasons",)),
    **dict.fromkeys(("configure", "inspect"), ("depths",)),
    **dict.fromkeys(("flow_control",), ("breaker",)),
    **dict.fromkeys(("claim", "exchange"), _CLAIM),
    "settle": _SETTLE,
    "reap": ("retries",),
    **dict.fromkeys(("probe", "beat"), ("standing",)),
    **dict.fromkeys(("repair_jobs", "repair_index", "repair_flows", "repair_lane", "repair_states"), ("repairs",)),
}
"""What a few scripts share, and begin with after the prelude."""

INNERMOST = {"submit": ("intake", "handover"), "exchange": _SETTLE}
"""What stands in the same function as the script itself, since one has room for 200 variables."""

_REFUSED_AT_MAXMEMORY = {"submit", "schedule_fire", "delivery_record", "forward", "probe"}
"""Scripts that bring new work: without `allow-oom` the server refuses them when it is full, and nothing else."""

_FUNCTIONS = {"submit", "claim", "settle", "exchange"}
"""Scripts that end with `return function() … end`: what they define is kept by the server from call to call, where it
takes functions (functions.py)."""

_BEGIN = "local refused = begin(KEYS, ARGV)\nif refused then return refused end\n"
_CALL = "return body()\n"
_FUNCTION_TRIES = 2


@dataclass(frozen=True)
class Script:
    """One transition: its name, its whole source, and the hash that the server knows it by."""

    name: str
    source: str
    sha: str

    @cached_property
    def is_function(self) -> bool:
        """Can it be called as a function of the server's?"""
        return self.name in _FUNCTIONS

    @cached_property
    def function(self) -> str:
        """What its function is called: by the hash too, so that versions that run side by side have each their own."""
        return f"{self.family}_{self.sha}"

    @property
    def family(self) -> str:
        """What its functions and libraries are called, of whichever version."""
        return f"gateway_{self.name}"

    def library(self, number: int) -> str:
        """The source of a library that holds the function alone.

        All is defined at the first call: while a library is loaded there is nothing of Lua's own to define it with.
        """
        head, _, rest = self.source.partition("\n")
        flags = "'allow-oom'" if "allow-oom" in head else ""
        parts = rest.replace(_BEGIN, "").removesuffix(_CALL)
        return (
            f"#!lua name={self.family}_{number}_{self.sha}\n"
            f"local run\nlocal function define()\n{parts}"
            "return function(keys, arguments) return begin(keys, arguments, true) or body() end\nend\n"
            f"redis.register_function{{function_name = '{self.function}', flags = {{{flags}}},\n"
            "  callback = function(keys, arguments)\n"
            "    if not run then run = define() end\n    return run(keys, arguments)\n  end}\n"
        )


def lua_directory() -> Path:
    """Where the scripts lie: inside the package in a wheel, beside it in a checkout."""
    package = Path(str(importlib.resources.files("gateway")))
    inside = package / "lua"
    return inside if inside.is_dir() else package.parent / "lua"


@cache
def script(name: str) -> Script:
    """The script of that name, ready to be called.

    Each part is a function inside the one before. To make a closure, Lua searches for each variable of the function
    around it that it uses, one by one, but takes what that function itself has from further out at once: with all
    parts in one function, most of a small call was this search.
    """
    directory = lua_directory()
    flags = "#!lua\n" if name in _REFUSED_AT_MAXMEMORY else "#!lua flags=allow-oom\n"
    parts = (*PRELUDE, *PARTS.get(name, ()))
    first, *inner = ((directory / f"{part}.lua").read_text() for part in parts)
    last = "".join((directory / f"{part}.lua").read_text() for part in (*INNERMOST.get(name, ()), name))
    nested = f"(function() {''.join(inner)}return (function() {last}end)() end)()\n"
    ending = f"local body = {nested}{_CALL}" if name in _FUNCTIONS else f"return {nested}"
    source = f"{flags}{first}{_BEGIN}{ending}"
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


async def run(client: Client, name: str, prefix: str, args: Sequence[Arg]) -> Any:
    """Calls one script on one partition; raises StoreError, never a client library's error."""
    it = script(name)
    began_s = perf_counter()
    try:
        for attempt in range(_FUNCTION_TRIES):
            if not (it.is_function and takes_functions(client)):
                break
            try:
                return await client.call("FCALL", it.function, 1, prefix, *args)
            except ResponseError as error:
                if takes_none(error):
                    refused(client, error)
                elif not is_unknown(error):
                    raise
                elif attempt == 0:
                    await load(client, prefix, it.family, it.library)
        try:
            return await client.call("EVALSHA", it.sha, 1, prefix, *args)
        except NoScriptError:
            return await client.call("EVAL", it.source, 1, prefix, *args)
    except (RedisError, OSError) as error:
        raise store_error(error) from error
    finally:
        client.calls.took(name, perf_counter() - began_s)


def begin(client: Client, name: str, prefix: str, args: Sequence[Arg]) -> asyncio.Future[list[Any]] | None:
    """As `run`, without a task; None where the call cannot leave at once. `reply_of` has what comes of it."""
    it = script(name)
    return client.begin("FCALL", it.function, 1, prefix, *args) if takes_functions(client) else None


def reply_of(client: Client, sent: asyncio.Future[list[Any]]) -> Any:
    """The reply to a call that was begun; None where the server did not carry it out, which is for `run` to do then.
    Raises StoreError."""
    reply = sent.exception() or sent.result()[0]
    if not isinstance(reply, Exception):
        return reply
    if takes_none(reply):
        refused(client, reply)
    elif not (is_unknown(reply) or isinstance(reply, MovedError)):
        raise store_error(reply) from reply
    return None


async def send(client: Client, prefix: str, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
    """The commands in one write, on a connection of their own to the server that holds the partition: their replies,
    errors among them."""
    server = client
    try:
        server = await client.server_of(prefix)
        pipe = server.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        replies: list[Any] = await pipe.execute(raise_on_error=False)
    except (RedisError, OSError) as error:
        server.failed(error)
        raise store_error(error) from error
    return _told(server, replies)


def _told(server: Client, replies: list[Any]) -> list[Any]:
    failed = next((reply for reply in replies if isinstance(reply, RedisError)), None)
    if failed is None:
        server.progressed()
    else:
        server.failed(failed)
    return replies
