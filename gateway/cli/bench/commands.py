"""`gateway bench`: measurements, each beside a bare limit measured in the same run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer
import uvloop

from gateway.cli.bench import bystanders as bystanders_bench
from gateway.cli.bench import callout as callout_bench
from gateway.cli.bench import claim_race as claim_race_bench
from gateway.cli.bench import command as command_bench
from gateway.cli.bench import cost as cost_bench
from gateway.cli.bench import crash as crash_bench
from gateway.cli.bench import delayed as delayed_bench
from gateway.cli.bench import depth as depth_bench
from gateway.cli.bench import enqueue as enqueue_bench
from gateway.cli.bench import flood as flood_bench
from gateway.cli.bench import flows as flows_bench
from gateway.cli.bench import footprint as footprint_bench
from gateway.cli.bench import hooks as hooks_bench
from gateway.cli.bench import intake as intake_bench
from gateway.cli.bench import latency as latency_bench
from gateway.cli.bench import machine
from gateway.cli.bench import memory as memory_bench
from gateway.cli.bench import observability as observability_bench
from gateway.cli.bench import persistence as persistence_bench
from gateway.cli.bench import priority as priority_bench
from gateway.cli.bench import retry as retry_bench
from gateway.cli.bench import scaling as scaling_bench
from gateway.cli.bench import throughput as throughput_bench
from gateway.cli.bench.report import Report, show_all
from gateway.cli.bench.rig import rig

app = typer.Typer(
    help="Measures this machine: figures, their spread, and ratios to a bare limit.",
    add_completion=False,
    no_args_is_help=True,
)

Jobs = Annotated[int, typer.Option(min=10, max=5_000_000, help="Jobs in each repetition.")]
Repetitions = Annotated[int, typer.Option(min=1, max=50, help="How often each side is measured, in turn.")]
Redis = Annotated[str | None, typer.Option(help="A Redis to use (a namespace of its own); default: an embedded one.")]
Slots = Annotated[
    int, typer.Option("--slots", "--workers", min=1, max=10_000, help="Attempts that a dispatcher runs at once.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def throughput(
    jobs: Jobs = 50_000,
    repetitions: Repetitions = 5,
    slots: Slots = 100,
    processes: Annotated[int, typer.Option(min=0, max=64, help="Dispatcher processes; 0: in this one.")] = 0,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """A dispatcher drains no-op Python jobs; beside it a bare claim + settle loop."""
    _show(
        redis,
        as_json,
        lambda url: throughput_bench.measure(url, jobs=jobs, repetitions=repetitions, processes=processes, slots=slots),
    )


@app.command()
def flood(
    jobs: Jobs = 50_000,
    repetitions: Repetitions = 5,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Dispatcher processes.")] = 1,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """One process submits while others drain, with 25, 50 and 100 slots; beside it the submit and a bare drain."""
    _show(
        redis,
        as_json,
        lambda url: flood_bench.measure(url, jobs=jobs, processes=processes, repetitions=repetitions),
    )


@app.command()
def enqueue(jobs: Jobs = 50_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """The store takes jobs in, in bulk and one by one; beside it bare calls of the same script."""
    _show(redis, as_json, lambda url: enqueue_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def latency(jobs: Jobs = 500, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """How soon a job starts at 100 a second and at half of the peak; beside it a bare submit, then claim."""
    _show(redis, as_json, lambda url: latency_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def priority(jobs: Jobs = 10_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """How soon critical jobs start beside full lower lanes, and how many jobs overtake a higher lane's."""
    _show(redis, as_json, lambda url: priority_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def retry(jobs: Jobs = 1_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """How many jobs that failed at one instant come back at one instant; beside it a fixed delay."""
    _show(redis, as_json, lambda url: retry_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def crash(jobs: Jobs = 200, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """What becomes of a hundred jobs whose dispatcher is gone, ten of them settled before."""
    _show(redis, as_json, lambda url: crash_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def claim_race(jobs: Jobs = 5_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """How many jobs ten racers take twice; beside it reading and then removing."""
    _show(redis, as_json, lambda url: claim_race_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def scaling(jobs: Jobs = 1_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """Jobs of 5 ms on 1, 4 and 8 slots; beside it a bare loop of as many sleeps."""
    _show(redis, as_json, lambda url: scaling_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def cost(
    waiting: Annotated[
        int, typer.Option(min=0, max=5_000_000, help="Jobs that wait in the deep measurement.")
    ] = 1_000_000,
    repetitions: Repetitions = 5,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """What a job takes of Redis's processor, by batch, by how many wait, and in flows; beside it a plain job.

    A job alone is measured twice: with its calls in a row, so that the server never sleeps, and with each call awaited,
    so that it sleeps in between and finds its caches cold. Beside both stands a script that does nothing, called in the
    same way.
    """
    _show(redis, as_json, lambda url: cost_bench.measure(url, waiting=waiting, repetitions=repetitions))


@app.command()
def persistence(
    jobs: Jobs = 50_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False
) -> None:
    """The drain with an append-only file; beside it the same without. Changes the server's settings meanwhile."""
    _show(redis, as_json, lambda url: persistence_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def footprint(
    jobs: Jobs = 1_000_000, repetitions: Repetitions = 1, redis: Redis = None, as_json: AsJson = False
) -> None:
    """How much memory a dispatcher process holds after so many jobs; beside it before the first."""
    _show(redis, as_json, lambda url: footprint_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def command(jobs: Jobs = 2_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """One dispatcher runs no-op command jobs; beside it a bare loop with the same launcher and pipes."""
    _show(redis, as_json, lambda url: command_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def callout(jobs: Jobs = 10_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """One dispatcher makes signed call-outs of 1 KB to a loopback sink; beside it a bare aiohttp loop."""
    _show(redis, as_json, lambda url: callout_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def bystanders(
    seconds: Annotated[float, typer.Option(min=1, help="How long each of the two sides lasts.")] = 8,
    repetitions: Repetitions = 5,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """A dead host among 50 targets: how late the others' requests arrive; beside it the same without the dead one."""
    _show(redis, as_json, lambda url: bystanders_bench.measure(url, seconds=seconds, repetitions=repetitions))


@app.command()
def hooks(
    deliveries: Annotated[int, typer.Option(min=100, max=5_000_000, help="Deliveries in each repetition.")] = 20_000,
    connections: Annotated[
        int, typer.Option(min=1, max=1_000, help="Each sends its next delivery when the last is answered.")
    ] = hooks_bench.CONNECTIONS,
    repetitions: Repetitions = 5,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """One gateway process takes signed deliveries in; beside it an endpoint of the same server that only reads."""
    _show(
        redis,
        as_json,
        lambda url: hooks_bench.measure(url, deliveries=deliveries, repetitions=repetitions, connections=connections),
    )


@app.command()
def observability(
    jobs: Jobs = 15_000, repetitions: Repetitions = 15, redis: Redis = None, as_json: AsJson = False
) -> None:
    """The drain of `throughput` with everything that observes it on; beside it the same with all of it off."""
    _show(redis, as_json, lambda url: observability_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def intake(
    parts: Annotated[list[intake_bench.Part] | None, typer.Argument(help="What to measure; default: all.")] = None,
    jobs: Jobs = 20_000,
    repetitions: Repetitions = 5,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """One gateway process takes jobs in over HTTP; beside it a bare Starlette endpoint that parses the same JSON."""
    chosen = parts or list(intake_bench.Part)
    _show(redis, as_json, lambda url: intake_bench.measure(url, parts=chosen, jobs=jobs, repetitions=repetitions))


@app.command()
def delayed(jobs: Jobs = 100, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """How late jobs start that are all due at one instant; beside it a bare timer of the same loop."""
    _show(redis, as_json, lambda url: delayed_bench.measure(url, jobs=jobs, repetitions=repetitions))


@app.command()
def depth(
    depths: Annotated[list[int], typer.Option(help="Jobs that wait.")] = [10_000, 100_000, 1_000_000],  # noqa: B006
    repetitions: Repetitions = 1,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """What each script costs Redis per job, by how many jobs wait; the ratio is to the first depth."""
    _show(redis, as_json, lambda url: depth_bench.measure(url, depths=tuple(depths), repetitions=repetitions))


@app.command()
def flows(
    jobs: Jobs = 10_000,
    backlog: Annotated[int, typer.Option(min=1, max=5_000_000, help="Jobs that wait behind the rate.")] = 100_000,
    seconds: Annotated[int, typer.Option(min=2, max=600, help="How long dispatchers share the rate.")] = 60,
    repetitions: Repetitions = 5,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """A key that comes late, a rate that three dispatchers share, and another target beside a backlog."""
    _show(
        redis,
        as_json,
        lambda url: flows_bench.measure(url, jobs=jobs, backlog=backlog, seconds=seconds, repetitions=repetitions),
    )


@app.command()
def memory(
    jobs: Jobs = 50_000,
    through: Annotated[int, typer.Option(min=0, help="Jobs to run through at the end; 0: none.")] = 1_000_000,
    repetitions: Repetitions = 3,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """Bytes of Redis per job, and whether many jobs leave it flat."""
    _show(redis, as_json, lambda url: memory_bench.measure(url, jobs=jobs, through=through, repetitions=repetitions))


@app.command("all")
def every(repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """Every measurement in a short form, one after the other, in one table: some ten minutes."""
    with rig(redis) as url:
        reports = [_run(_described(url, measure)) for measure in _short_forms(repetitions)]
    show_all(reports, as_json=as_json)


Measure = Callable[[str], Coroutine[Any, Any, Report]]


def _short_forms(n: int) -> list[Measure]:
    return [
        lambda url: throughput_bench.measure(url, jobs=30_000, repetitions=n),
        lambda url: flood_bench.measure(url, jobs=30_000, processes=1, repetitions=n),
        lambda url: enqueue_bench.measure(url, jobs=30_000, repetitions=n),
        lambda url: latency_bench.measure(url, jobs=300, repetitions=n),
        lambda url: delayed_bench.measure(url, jobs=100, repetitions=n),
        lambda url: delayed_bench.measure(url, jobs=10_000, repetitions=n),
        lambda url: priority_bench.measure(url, jobs=5_000, repetitions=n),
        lambda url: retry_bench.measure(url, jobs=1_000, repetitions=n),
        lambda url: crash_bench.measure(url, jobs=200, repetitions=n),
        lambda url: claim_race_bench.measure(url, jobs=2_000, repetitions=n),
        lambda url: scaling_bench.measure(url, jobs=400, repetitions=n),
        lambda url: cost_bench.measure(url, waiting=200_000, repetitions=n),
        lambda url: persistence_bench.measure(url, jobs=30_000, repetitions=n),
        lambda url: hooks_bench.measure(url, deliveries=10_000, repetitions=n),
        lambda url: intake_bench.measure(url, parts=list(intake_bench.Part), jobs=10_000, repetitions=n),
        lambda url: callout_bench.measure(url, jobs=5_000, repetitions=n),
        lambda url: bystanders_bench.measure(url, seconds=4, repetitions=n),
        lambda url: observability_bench.measure(url, jobs=20_000, repetitions=n),
        lambda url: command_bench.measure(url, jobs=1_000, repetitions=n),
        lambda url: memory_bench.measure(url, jobs=20_000, through=0, repetitions=1),
        lambda url: footprint_bench.measure(url, jobs=100_000, repetitions=1),
    ]


def _show(redis: str | None, as_json: bool, measure: Measure) -> None:
    with rig(redis) as url:
        report = _run(_described(url, measure))
    report.show(as_json=as_json)


async def _described(url: str, measure: Measure) -> Report:
    report = await measure(url)
    report.machine = await machine.describe(url)
    return report


def _run(work: Coroutine[Any, Any, Report]) -> Report:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
