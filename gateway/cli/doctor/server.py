"""Does Redis take our writes, does it keep them, and does the data in it fit?"""

from __future__ import annotations

from collections.abc import AsyncIterator

from gateway.cli.doctor.finding import Finding, Patient
from gateway.store.examine import ServerFacts, examine_servers
from gateway.store.fitness import least_version

TOLD_APART = ("persistence", "clock")
"""Subjects of the start's remarks that have a check of their own here, which knows more."""

_FULL = 0.9
_MIB = 1024 * 1024


async def check_server(patient: Patient) -> AsyncIterator[Finding]:
    """Whether every partition takes a script that writes; raises StoreError where it does not."""
    store = patient.store
    await store.check()
    partitions = f"{store.partitions} partition{'' if store.partitions == 1 else 's'}"
    for remark in store.remarks:
        if remark.subject not in TOLD_APART:
            yield Finding("warning", remark.text)
    yield Finding("ok", f"takes writes, and the data fits this version ({partitions})")


async def check_version(patient: Patient) -> AsyncIterator[Finding]:
    """Is every server new enough, and one that takes writes?"""
    for facts in await examine_servers(patient.store):
        name, least = f"{facts.version} at {facts.address}", least_version(facts.version.program)
        if facts.version.numbers < least.numbers:
            yield Finding("fault", f"{name} is too old: upgrade it to {least} or later")
        elif facts.role not in ("master", "primary"):
            yield Finding("fault", f"{name} is a replica, which takes no writes: name its primary in GATEWAY_REDIS_URL")
        else:
            yield Finding("ok", name)


async def check_memory(patient: Patient) -> AsyncIterator[Finding]:
    """Does no server evict jobs, and is there room?"""
    for facts in await examine_servers(patient.store):
        if facts.policy != "noeviction":
            mend = "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file"
            yield Finding("fault", f"{facts.address} may evict jobs (maxmemory-policy {facts.policy}): {mend}")
        elif facts.memory_most_bytes and facts.memory_bytes > _FULL * facts.memory_most_bytes:
            used = f"{facts.memory_bytes / _MIB:.0f} of {facts.memory_most_bytes / _MIB:.0f} MiB"
            mend = "raise maxmemory, or keep less (retention.finished, retention.dead); a full one refuses new work"
            yield Finding("warning", f"{facts.address} is nearly full ({used}): {mend}")
        else:
            yield Finding("ok", f"{facts.address} evicts nothing, {facts.memory_bytes / _MIB:.0f} MiB in use")


async def check_persistence(patient: Patient) -> AsyncIterator[Finding]:
    """Does what was acknowledged survive a restart of Redis?"""
    for facts in await examine_servers(patient.store):
        yield _persistence(facts)


def _persistence(facts: ServerFacts) -> Finding:
    at, settings = facts.address, facts.settings
    if facts.aof_status != "ok" or facts.rdb_status != "ok":
        return Finding("fault", f"{at} could not write to its disk last time: see its log, and make room there")
    if not facts.aof and settings.get("save", "-") == "":
        detail = "keeps nothing on disk, so its restart loses every job: CONFIG SET appendonly yes"
        return Finding("warning", f"{at} {detail}, and the same in its configuration file")
    if not facts.aof:
        detail = (
            "has no append-only file, so a crash loses what came since the last snapshot: CONFIG SET appendonly yes"
        )
        return Finding("warning", f"{at} {detail}")
    if settings.get("appendfsync") == "no":
        detail = "leaves it to the system when to write, so a power cut may lose half a minute"
        return Finding("warning", f"{at} {detail}: CONFIG SET appendfsync everysec")
    return Finding("ok", f"{at} writes an append-only file ({settings.get('appendfsync', 'as it is configured')})")
