"""Does Redis hold the limits and schedules that the configuration says?"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping

import msgspec

from gateway.cli.doctor.finding import Finding, Patient
from gateway.errors import ConfigError
from gateway.jobs import NULL
from gateway.registry import Registry
from gateway.schedules import Schedule
from gateway.settings import Settings
from gateway.store import Store
from gateway.store.schedules import every_schedule
from gateway.store.targets import registered_limits

MEND = "every dispatcher registers them when it starts: restart those that have another configuration"


async def check_registered(patient: Patient) -> AsyncIterator[Finding]:
    """Whatever a running installation does not know as it is configured here, or has lost."""
    registry, store = _registry_of(patient.settings), patient.store
    if registry is None:
        return
    store.expect_flows(registry.flows)
    found = {name: await registered_limits(store, name) for name in sorted(registry.flows)}
    if not any(each for parts in found.values() for each in parts):
        if (await store.inspect()).dispatchers:
            yield Finding("warning", f"dispatchers are alive, and Redis knows no limits: {MEND}")
        else:
            yield Finding("ok", "nothing is registered yet: gateways and dispatchers do so when they start")
        return
    limits = [name for name, parts in found.items() if not all(_holds(each, registry.flows[name]) for each in parts)]
    schedules = await _other_schedules(store, registry)
    if limits:
        yield Finding("warning", f"the limits of {', '.join(limits)} are not those in Redis: {MEND}")
    if schedules:
        yield Finding("warning", f"the schedules {', '.join(schedules)} are not those in Redis: {MEND}")
    if not limits and not schedules:
        yield Finding("ok", "Redis has the limits and schedules of the configuration")


def _registry_of(settings: Settings) -> Registry | None:
    """What is configured; None where the configuration is wrong, which its own check tells."""
    secrets = dataclasses.replace(settings.secrets, required=False)
    try:
        return Registry.build(msgspec.structs.replace(settings, secrets=secrets))
    except ConfigError:
        return None


def _holds(found: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(found.get(name, 0) == value for name, value in wanted.items())


async def _other_schedules(store: Store, registry: Registry) -> list[str]:
    """The file's schedules that Redis has otherwise, or not at all, or that the file has not any more."""
    found: dict[str, Schedule] = {}
    async for each in every_schedule(store):
        if each.schedule.source == "file":
            found[each.schedule.name] = msgspec.structs.replace(each.schedule, payload=NULL)
    wanted = {name: msgspec.structs.replace(each, payload=NULL) for name, each in registry.schedules.items()}
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
