"""Is every job in its place, and does every count agree?"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from gateway.cli.doctor.finding import Finding, Patient
from gateway.store.repair import LOOK_MOST, Damage, find_damage

_STOPPED_MOST = 10_000_000


async def check_data(patient: Patient) -> AsyncIterator[Finding]:
    """Whatever a damaged Redis has left; mended with `--repair`, and then looked at once more."""
    look_most = _STOPPED_MOST if patient.stopped else LOOK_MOST
    counted: Counter[bool] = Counter()
    async for damage in find_damage(patient.store, mend=patient.repair, look_most=look_most):
        counted[damage.known] += 1
        yield _finding(damage, mended=patient.repair)
    if not counted[True]:
        if not counted[False]:
            yield Finding("ok", "every job is in its place, and every count is right")
    elif not patient.repair:
        yield Finding("warning", f"{counted[True]} things to mend: gateway doctor --repair")
    else:
        async for finding in _second_look(patient, look_most):
            yield finding


async def _second_look(patient: Patient, look_most: int) -> AsyncIterator[Finding]:
    left = 0
    async for damage in find_damage(patient.store, look_most=look_most):
        if damage.known:
            left += 1
            yield _finding(damage, mended=False)
    if not left:
        yield Finding("ok", "nothing is wrong any more")


def _finding(damage: Damage, *, mended: bool) -> Finding:
    if not damage.known:
        return Finding("warning", damage.sentence)
    return Finding("mended" if mended else "fault", damage.sentence)
