"""Is this server fit to hold jobs? What would lose them stops the start; what may is said, each with its mend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from redis.exceptions import RedisError

from gateway.errors import StoreMismatch
from gateway.store.client import Client
from gateway.store.durability import Durability
from gateway.store.refusals import store_error

Numbers = tuple[int, ...]

LEAST: dict[str, Numbers] = {"Valkey": (7, 2), "Redis": (7, 0)}
LEAST_FSYNC: Numbers = (7, 2)
CLOCKS_APART_S = 2.0
"""A gateway turns `run_at` into a delay by its own clock, and the server counts from then on by its own."""

_MENDED: dict[str, tuple[Numbers, ...]] = {
    "Valkey": ((7, 2, 11), (8, 0, 6), (8, 1, 4), (9,)),
    "Redis": ((7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2), (8, 3)),
}
"""CVE-2025-49844: in each line the first version without it, and from the last one on none has it."""

_EARLY_WAITAOF = ((7, 4, 0), (7, 4, 3))
"""Redis from the first up to before the second: WAITAOF may return before the disk has it (release notes of 7.4.3)."""


Subject = Literal["version", "persistence", "durability", "clock"]


@dataclass(frozen=True, slots=True)
class Remark:
    """What may lose jobs, or worse, and its mend."""

    subject: Subject
    text: str


@dataclass(frozen=True, slots=True)
class Version:
    """Which program the server is, and its version."""

    program: str
    numbers: Numbers

    def __str__(self) -> str:
        return f"{self.program} {'.'.join(map(str, self.numbers))}"


async def examine(client: Client, *, durability: Durability, replicas: int, now_s: float) -> list[Remark]:
    """What is to be said of the servers; `now_s` is this machine's clock, in Unix seconds.

    Raises StoreMismatch for a server that must not hold jobs, StoreError for one that does not answer.
    """
    found: list[Remark] = []
    try:
        for server in await client.servers():
            facts: dict[str, Any] = await server.info()
            seconds, micros = await server.time()
            refuse(facts, durability=durability)
            found += warnings(facts, durability=durability, replicas=replicas)
            apart_s = seconds + micros / 1e6 - now_s
            if abs(apart_s) > CLOCKS_APART_S:
                said = (
                    f"its clock is {abs(apart_s):.0f} s {'ahead of' if apart_s > 0 else 'behind'} this machine's: jobs "
                    "with a run_at start that much off, and signed requests may be taken for old; run NTP on both"
                )
                found.append(Remark("clock", said))
    except (RedisError, OSError) as error:
        raise store_error(error) from error
    return list(dict.fromkeys(found))


def version_of(facts: Mapping[str, Any]) -> Version:
    """The program and version that INFO tells of; Valkey also calls itself Redis 7.2.4, for old clients."""
    program = "Valkey" if "valkey_version" in facts else "Redis"
    text = str(facts.get("valkey_version") or facts.get("redis_version") or "0")
    return Version(program, tuple(int(part) for part in text.split(".") if part.isdigit()))


def least_version(program: str) -> Version:
    """The oldest version of a program that will do: scripts declare there what they may do at the memory limit."""
    return Version(program, LEAST[program])


def refuse(facts: Mapping[str, Any], *, durability: Durability) -> None:
    """Raises StoreMismatch for a server that would lose jobs, or lacks what is needed."""
    version = version_of(facts)
    least = least_version(version.program)
    if version.numbers < least.numbers:
        raise StoreMismatch(f"{version} is too old; upgrade it to {least} or later")
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise StoreMismatch(
            f"Redis may evict jobs: its maxmemory-policy is {policy}; set it to noeviction "
            "(CONFIG SET maxmemory-policy noeviction)"
        )
    if durability == "fsync":
        if version.numbers < LEAST_FSYNC:
            raise StoreMismatch(f"durability fsync needs WAITAOF, which {version} has not; upgrade it to 7.2 or later")
        if not facts.get("aof_enabled"):
            raise StoreMismatch(
                "durability fsync needs a log of writes, and Redis keeps none; switch it on (CONFIG SET appendonly yes)"
            )


def warnings(facts: Mapping[str, Any], *, durability: Durability, replicas: int) -> Iterator[Remark]:
    """What may lose jobs, or worse, and how to mend it."""
    yield from (Remark("persistence", text) for text in _of_persistence(facts))
    yield from (Remark("version", text) for text in _of_version(version_of(facts), durability))
    attached = int(facts.get("connected_slaves", 0))
    if durability == "replica" and attached < replicas:
        text = (
            f"durability replica waits for {replicas} replicas, and it has {attached}: every submit is answered 503 "
            "until they are there; attach them, or lower gateway.replicas"
        )
        yield Remark("durability", text)


def _of_persistence(facts: Mapping[str, Any]) -> Iterator[str]:
    if not facts.get("aof_enabled"):
        yield (
            "it keeps no log of writes: when it ends, what came since its last snapshot is lost, and where it takes "
            "none everything is; switch it on (CONFIG SET appendonly yes, and in its configuration file)"
        )
    for name in ("aof_last_write_status", "rdb_last_bgsave_status", "aof_last_bgrewrite_status"):
        if facts.get(name, "ok") != "ok":
            yield f"it could not write to its disk ({name} is {facts[name]}); free space there, or look into its log"


def _of_version(version: Version, durability: Durability) -> Iterator[str]:
    if _is_vulnerable(version):
        first = ", ".join(".".join(map(str, numbers)) for numbers in _MENDED[version.program])
        yield (
            f"whoever may run scripts on {version} can take the machine over (CVE-2025-49844), unless its distribution "
            f"has mended that; upgrade to one of {first} or later, and let no stranger reach it"
        )
    early, late = _EARLY_WAITAOF
    if durability == "fsync" and version.program == "Redis" and early <= version.numbers < late:
        yield f"WAITAOF of {version} may return before the disk has what was written; upgrade it to 7.4.3 or later"


def _is_vulnerable(version: Version) -> bool:
    mended = _MENDED[version.program]
    if version.numbers >= mended[-1]:
        return False
    own_line = next((numbers for numbers in mended if numbers[:2] == version.numbers[:2]), None)
    return own_line is None or version.numbers < own_line
