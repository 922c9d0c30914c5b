"""`gateway bench`: measurements, each beside a bare limit measured in the same run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any

import typer
import uvloop

from gateway.cli.bench import callout as callout_bench
from gateway.cli.bench import command as command_bench
from gateway.cli.bench import delayed as delayed_bench
from gateway.cli.bench import depth as depth_bench
from gateway.cli.bench import flows as flows_bench
from gateway.cli.bench import hooks as hooks_bench
from gateway.cli.bench import memory as memory_bench
from gateway.cli.bench import observability as observability_bench
from gateway.cli.bench import throughput as throughput_bench
from gateway.cli.bench.report import Report
from gateway.cli.bench.rig import rig

app = typer.Typer(
    help="Measures this machine: figures, their spread, and ratios to a bare limit.", no_args_is_help=True
)

Jobs = Annotated[int, typer.Option(min=10, max=5_000_000, help="Jobs in each repetition.")]
Repetitions = Annotated[int, typer.Option(min=1, max=50, help="How often each side is measured, in turn.")]
Redis = Annotated[str | None, typer.Option(help="A Redis to use (a namespace of its own); default: an embedded one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def throughput(jobs: Jobs = 50_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """One dispatcher with default settings drains no-op Python jobs; beside it a bare claim + settle loop."""
    with rig(redis) as url:
        report = _run(throughput_bench.measure(url, jobs=jobs, repetitions=repetitions))
    report.show(as_json=as_json)


@app.command()
def command(jobs: Jobs = 2_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """One dispatcher runs no-op command jobs; beside it a bare loop with the same launcher and pipes."""
    with rig(redis) as url:
        report = _run(command_bench.measure(url, jobs=jobs, repetitions=repetitions))
    report.show(as_json=as_json)


@app.command()
def callout(jobs: Jobs = 10_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """One dispatcher makes signed call-outs of 1 KB to a loopback sink; beside it a bare aiohttp loop."""
    with rig(redis) as url:
        report = _run(callout_bench.measure(url, jobs=jobs, repetitions=repetitions))
    report.show(as_json=as_json)


@app.command()
def hooks(
    deliveries: Annotated[int, typer.Option(min=100, max=5_000_000, help="Deliveries in each repetition.")] = 20_000,
    repetitions: Repetitions = 5,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """One gateway process takes signed deliveries in; beside it an endpoint of the same server that only reads."""
    with rig(redis) as url:
        report = _run(hooks_bench.measure(url, deliveries=deliveries, repetitions=repetitions))
    report.show(as_json=as_json)


@app.command()
def observability(
    jobs: Jobs = 50_000, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False
) -> None:
    """The drain of `throughput` with everything that observes it on; beside it the same with all of it off."""
    with rig(redis) as url:
        report = _run(observability_bench.measure(url, jobs=jobs, repetitions=repetitions))
    report.show(as_json=as_json)


@app.command()
def delayed(jobs: Jobs = 100, repetitions: Repetitions = 5, redis: Redis = None, as_json: AsJson = False) -> None:
    """How late jobs start that are all due at one instant; beside it a bare timer of the same loop."""
    with rig(redis) as url:
        report = _run(delayed_bench.measure(url, jobs=jobs, repetitions=repetitions))
    report.show(as_json=as_json)


@app.command()
def depth(
    depths: Annotated[list[int], typer.Option(help="Jobs that wait.")] = [10_000, 100_000, 1_000_000],  # noqa: B006
    repetitions: Repetitions = 1,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """What each script costs Redis per job, by how many jobs wait; the ratio is to the first depth."""
    with rig(redis) as url:
        report = _run(depth_bench.measure(url, depths=tuple(depths), repetitions=repetitions))
    report.show(as_json=as_json)


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
    with rig(redis) as url:
        report = _run(flows_bench.measure(url, jobs=jobs, backlog=backlog, seconds=seconds, repetitions=repetitions))
    report.show(as_json=as_json)


@app.command()
def memory(
    jobs: Jobs = 50_000,
    through: Annotated[int, typer.Option(min=0, help="Jobs to run through at the end; 0: none.")] = 1_000_000,
    repetitions: Repetitions = 3,
    redis: Redis = None,
    as_json: AsJson = False,
) -> None:
    """Bytes of Redis per job, and whether many jobs leave it flat."""
    with rig(redis) as url:
        report = _run(memory_bench.measure(url, jobs=jobs, through=through, repetitions=repetitions))
    report.show(as_json=as_json)


def _run(work: Coroutine[Any, Any, Report]) -> Report:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
