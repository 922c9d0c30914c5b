"""`gateway doctor`: examines the configuration, Redis and the data in it; `--repair` mends the data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from gateway.cli.doctor.configuration import check_configuration, look_at_configuration
from gateway.cli.doctor.data import check_data
from gateway.cli.doctor.finding import Finding, Patient
from gateway.cli.doctor.network import check_dispatchers, check_exposure, check_ports
from gateway.cli.doctor.registered import check_registered
from gateway.cli.doctor.server import check_memory, check_persistence, check_server, check_version
from gateway.cli.doctor.timing import check_clock, check_latency
from gateway.cli.environment import load_settings, redis_origin, redis_url, with_redis
from gateway.errors import ConfigError, GatewayError, StoreUnavailable
from gateway.opening import make_store
from gateway.settings import Settings

Check = Callable[[Patient], AsyncIterator[Finding]]

CHECKS: dict[str, Check] = {
    "configuration": check_configuration,
    "version": check_version,
    "memory": check_memory,
    "persistence": check_persistence,
    "clock": check_clock,
    "latency": check_latency,
    "registered": check_registered,
    "redis": check_server,
    "exposure": check_exposure,
    "ports": check_ports,
    "dispatchers": check_dispatchers,
    "data": check_data,
}
"""Every check by its name, in the order in which they run."""

REPLY_S = 5.0
STOPPED_REPLY_S = 300.0

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, a line for each finding.")]
Repair = Annotated[bool, typer.Option("--repair", help="Mend what is wrong in the data; others may go on working.")]
Stopped = Annotated[
    bool, typer.Option("--stopped", help="Gateways and dispatchers are stopped: count however much there is.")
]


def doctor(repair: Repair = False, stopped: Stopped = False, as_json: AsJson = False) -> None:
    """Examines the configuration, Redis and the data in it. Exits with 1 if there is a fault."""
    configured = load_settings()
    try:
        settings = with_redis(configured)
    except ConfigError as error:
        _tell_without_redis(configured, error, as_json=as_json)
        raise typer.Exit(1) from error

    async def run() -> bool:
        reply_s = STOPPED_REPLY_S if stopped else REPLY_S
        store = make_store(settings, redis_url(settings), reply_timeout_s=reply_s)
        try:
            return await _run(Patient(settings, store, repair, stopped), as_json=as_json)
        finally:
            await store.aclose()

    if not asyncio.run(run()):
        raise typer.Exit(1)


def _tell_without_redis(settings: Settings, error: ConfigError, *, as_json: bool) -> None:
    """What can be told of where no Redis is named: all but the configuration needs one."""
    for finding in look_at_configuration(settings):
        _show("configuration", finding, as_json=as_json)
    _show("redis", Finding("fault", str(error)), as_json=as_json)


async def examine(patient: Patient, checks: Mapping[str, Check] = CHECKS) -> AsyncIterator[tuple[str, Finding]]:
    """What every check finds, by its name. One that fails is a fault, told once where others fail of the same."""
    told: set[str] = set()
    for name, check in checks.items():
        try:
            async for finding in check(patient):
                yield name, finding
        except StoreUnavailable as error:
            if str(error) not in told:
                yield "redis", Finding("fault", f"{error} {redis_origin()}")
            told.add(str(error))
        except GatewayError as error:
            if str(error) not in told:
                yield name, Finding("fault", str(error))
            told.add(str(error))


async def _run(patient: Patient, *, as_json: bool) -> bool:
    """Shows what is found; false if there was a fault."""
    well = True
    async for name, finding in examine(patient):
        _show(name, finding, as_json=as_json)
        well = well and finding.level != "fault"
    return well


def _show(check: str, finding: Finding, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"check": check, **asdict(finding)}), flush=True)
    else:
        print(f"{finding.level:8} {check}: {finding.detail}", flush=True)
