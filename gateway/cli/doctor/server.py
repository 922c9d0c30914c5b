"""Does Redis take our writes, and does the data in it fit?"""

from __future__ import annotations

from collections.abc import AsyncIterator

from gateway.cli.doctor.finding import Finding, Patient


async def check_server(patient: Patient) -> AsyncIterator[Finding]:
    """Whether every partition takes a script that writes; raises StoreError where it does not."""
    store = patient.store
    await store.configure()
    await store.probe()
    partitions = f"{store.partitions} partition{'' if store.partitions == 1 else 's'}"
    yield Finding("ok", f"takes writes, and the data fits this version ({partitions})")
