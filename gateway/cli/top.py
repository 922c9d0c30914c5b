"""`gateway top`: lanes, targets and rates, live."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from gateway.cli.printing import make_table, print_bytes, printable
from gateway.cli.reading import read_seconds
from gateway.cli.session import Session, speaks
from gateway.cli.stats import EVENTS, lane_row
from gateway.client import AsyncGateway
from gateway.client.answers import Stats, TargetStats
from gateway.client.calls.installation import get_stats


@speaks
def top(
    session: Session,
    interval: Annotated[str, typer.Option(help="How often it looks.")] = "1s",
    count: Annotated[int | None, typer.Option(min=1, help="How often at most; left out: until Ctrl-C.")] = None,
) -> None:
    """Shows lanes, targets and rates, live, until Ctrl-C; with --json a line of figures each time."""
    every_s = max(0.05, read_seconds(interval, 1.0))

    async def look(gateway: AsyncGateway) -> None:
        if session.as_json:
            await _print_each(gateway, count, every_s)
        else:
            await _show_each(gateway, count, every_s)

    session.run(look)


async def _print_each(gateway: AsyncGateway, count: int | None, every_s: float) -> None:
    looked = 0
    while True:
        print_bytes(await gateway.call(get_stats().read_by(bytes)))
        looked += 1
        if looked == count:
            return
        await asyncio.sleep(every_s)


async def _show_each(gateway: AsyncGateway, count: int | None, every_s: float) -> None:
    console = Console(markup=False, highlight=False, emoji=False)
    before: tuple[float, Stats] | None = None
    looked = 0
    with Live(console=console, auto_refresh=False, screen=console.is_terminal and count is None) as live:
        while True:
            now_s, stats = time.monotonic(), await gateway.stats()
            live.update(view(stats, before and (now_s - before[0], before[1])), refresh=True)
            before = now_s, stats
            looked += 1
            if looked == count:
                break
            await asyncio.sleep(every_s)
    if not console.is_terminal:
        console.line()  # what was shown last ends without


def view(stats: Stats, before: tuple[float, Stats] | None) -> RenderableType:
    """The figures, and events per second since `before` (seconds ago, what they were then)."""
    head = (
        f"running {stats.running}   due later {stats.due}   dead {stats.dead}   finished {stats.finished}   "
        f"dispatchers {stats.dispatchers}"
    )
    known = before and (before[0], before[1].events)
    rates = "   ".join(f"{event} {_rate(stats.events, known, event)}" for event in EVENTS)
    then = {each.target: each.events for each in before[1].targets} if before else {}
    targets = [_row(each, before and (before[0], then.get(each.target, {}))) for each in stats.targets]
    return Group(
        Text(head),
        Text(f"per second: {rates}"),
        make_table(("lane", "pending", "oldest", "state"), map(lane_row, stats.lanes)),
        make_table(("target", "pending", *(f"{event}/s" for event in EVENTS), "blocked"), targets),
    )


def _row(target: TargetStats, before: tuple[float, dict[str, int]] | None) -> tuple[object, ...]:
    rates = (_rate(target.events, before, event) for event in EVENTS)
    return printable(target.target), target.pending, *rates, target.blocked or ""


def _rate(now: dict[str, int], before: tuple[float, dict[str, int]] | None, event: str) -> str:
    """Events per second; a dash where nothing is known of before."""
    if before is None or before[0] <= 0:
        return "-"
    return f"{(now.get(event, 0) - before[1].get(event, 0)) / before[0]:.1f}"
