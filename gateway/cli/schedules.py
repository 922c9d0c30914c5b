"""`gateway schedules`: lists, shows, pauses, resumes and runs schedules, straight in Redis."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from gateway.api.schedules import render_schedule, render_summary
from gateway.cli.environment import load_settings, with_store
from gateway.registry import Registry
from gateway.store import Store
from gateway.store.schedules import Standing, every_schedule, find_schedule, pause_schedule, resume_schedule
from gateway.store.slots import run_schedule
from gateway.submission import job_facts

app = typer.Typer(help="Lists, shows, pauses, resumes and runs schedules.", no_args_is_help=True)


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Lists every schedule and when it fires next; `show` tells what came of one so far."""
    found = sorted(with_store(_every), key=lambda each: each.schedule.name)
    if as_json:
        _print([render_summary(each) for each in found])
        return
    table = Table(*(Column(name, overflow="fold") for name in ("name", "cron", "target", "next", "state")), box=SIMPLE)
    for each in found:
        table.add_row(*_row(each))
    Console().print(table)


@app.command()
def show(name: str) -> None:
    """Prints a schedule as JSON, with its payload."""
    _print(render_schedule(with_store(lambda store: find_schedule(store, name))))


@app.command()
def pause(name: str) -> None:
    """Lets no slot of it fire until it is resumed."""
    with_store(lambda store: pause_schedule(store, name))


@app.command()
def resume(name: str) -> None:
    """Lets it go on, and prints when it fires next."""
    print(render_summary(with_store(lambda store: resume_schedule(store, name))).get("next_run_at", ""))


@app.command()
def run(name: str) -> None:
    """Makes a job of it now, paused or not, and prints the job's id."""
    settings = load_settings()
    registry = Registry.build(settings)

    async def make(store: Store) -> str:
        made, _ = await run_schedule(
            store, name, lambda found: job_facts(found, registry.targets, settings.lanes.default)
        )
        return made

    print(with_store(make, settings))


async def _every(store: Store) -> list[Standing]:
    return [each async for each in every_schedule(store)]


def _row(standing: Standing) -> tuple[str, ...]:
    """A row that fits 80 columns: the zone below the cron unless it is UTC, the next slot in UTC to the second."""
    schedule = standing.schedule
    cron = schedule.cron if schedule.timezone == "UTC" else f"{schedule.cron}\n{schedule.timezone}"
    fires_ms = None if standing.paused else standing.fires_ms
    coming = "" if fires_ms is None else f"{datetime.fromtimestamp(fires_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    state = "paused" if standing.paused else "over" if fires_ms is None else "active"
    return schedule.name, cron, schedule.target, coming, state


def _print(value: Any) -> None:
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
