"""Is the configuration right?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from gateway.cli.cautions import cautions
from gateway.cli.config import faults, summary
from gateway.cli.doctor.finding import Finding, Patient
from gateway.errors import ConfigError
from gateway.registry import Registry
from gateway.registry.declared import with_declared
from gateway.settings import Settings


async def check_configuration(patient: Patient) -> AsyncIterator[Finding]:
    """Every fault of a target, trigger or schedule, as `gateway config check` finds them, and what
    will fail for certain."""
    for finding in look_at_configuration(patient.settings):
        yield finding


def look_at_configuration(settings: Settings) -> Iterator[Finding]:
    """The same, which needs no Redis."""
    try:
        settings = with_declared(settings)
    except ConfigError as exc:
        yield Finding("fault", str(exc))
        return
    well = True
    for fault in faults(settings):
        well = False
        yield Finding("fault", str(fault))
    if well:
        found = list(cautions(settings, Registry.build(settings)))
        for caution in found:
            yield Finding("warning", caution)
        yield Finding("ok", summary(settings, len(found)))
