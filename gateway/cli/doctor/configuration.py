"""Is the configuration right?"""

from __future__ import annotations

from collections.abc import AsyncIterator

from gateway.cli.config import faults
from gateway.cli.doctor.finding import Finding, Patient


async def check_configuration(patient: Patient) -> AsyncIterator[Finding]:
    """Every fault of a target, trigger or schedule, as `gateway config check` finds them."""
    well = True
    for fault in faults(patient.settings):
        well = False
        yield Finding("fault", str(fault))
    if well:
        settings = patient.settings
        yield Finding(
            "ok", f"{settings.source}: targets, triggers and schedules are right ({len(settings.targets)} targets)"
        )
