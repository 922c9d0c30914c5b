"""`gateway dlq`: looks through the dead-letter queue, sends jobs back, purges them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from gateway.cli.jobs import print_record
from gateway.cli.printing import ago, print_facts, print_table
from gateway.cli.reading import options_of
from gateway.cli.replaying import purge_all, purge_each, replay_all, retry_each
from gateway.cli.session import Session, speaks
from gateway.client.answers import JobSummary
from gateway.client.bodies import DeadFilter
from gateway.client.calls import dlq as calls
from gateway.jobs import Reason

app = typer.Typer(
    help="The dead-letter queue: looks through it, sends jobs back, purges them.",
    add_completion=False,
    no_args_is_help=True,
)

JobIds = Annotated[list[str] | None, typer.Argument(help="Ids of dead jobs; left out: those that the options name.")]
All = Annotated[bool, typer.Option("--all", help="Every dead job.")]
Target = Annotated[str | None, typer.Option(help="Of this target only.")]
Why = Annotated[Reason | None, typer.Option("--reason", help="Dead for this reason only.")]
After = Annotated[str | None, typer.Option(help="Dead since then, such as 2026-03-14T15:00:00Z.")]
Before = Annotated[str | None, typer.Option(help="Dead by then.")]
Attempts = Annotated[int | None, typer.Option(min=1, help="How often they are tried from now on.")]


@app.command()
@speaks
def ls(
    session: Session,
    target: Target = None,
    reason: Why = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
) -> None:
    """Lists dead jobs, the latest first."""
    listing = calls.list_dead(min(limit, 100), target, reason and reason.value)
    session.list(listing, limit, print_dead)


@app.command()
@speaks
def show(session: Session, job_id: Annotated[str, typer.Argument(help="The job's id.")]) -> None:
    """Shows a dead job's record."""
    session.show(calls.get_dead(job_id), print_record)


@app.command()
@speaks
def retry(
    session: Session,
    job_ids: JobIds = None,
    every: All = False,
    target: Target = None,
    reason: Why = None,
    dead_after: After = None,
    dead_before: Before = None,
    max_attempts: Attempts = None,
    rate: Annotated[str | None, typer.Option(help='Such as "50/s"; left out: 100/s.')] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many at most, those dead longest first.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all are sent back.")] = False,
) -> None:
    """Sends dead jobs back to their lanes: those named, or those that the options name, at a rate."""
    wanted = _filter(target, reason, dead_after, dead_before)
    if _named(job_ids, every, wanted):
        retry_each(session, job_ids or [], max_attempts)
    else:
        order = calls.start_replay(wanted, rate=rate, limit=limit, max_attempts=max_attempts)
        replay_all(session, order, wait=wait)


@app.command()
@speaks
def replay(session: Session, replay_id: Annotated[str, typer.Argument(help="What `retry` printed.")]) -> None:
    """Tells how far it is to send back the jobs that `retry` was given."""
    session.show(calls.get_replay(replay_id), lambda state: print_facts(msgspec.structs.asdict(state)))


@app.command()
@speaks
def purge(
    session: Session,
    job_ids: JobIds = None,
    every: All = False,
    target: Target = None,
    reason: Why = None,
    dead_after: After = None,
    dead_before: Before = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Takes dead jobs away for good: those named, or those that the options name."""
    wanted = _filter(target, reason, dead_after, dead_before)
    if _named(job_ids, every, wanted):
        purge_each(session, job_ids or [])
        return
    if not yes:
        typer.confirm(f"Take {'every dead job' if every else 'these dead jobs'} away for good?", abort=True, err=True)
    purge_all(session, wanted)


def _filter(target: str | None, reason: Reason | None, after: str | None, before: str | None) -> DeadFilter:
    wanted: DeadFilter = options_of(target=target, reason=reason and reason.value, dead_after=after, dead_before=before)
    return wanted


def _named(job_ids: list[str] | None, every: bool, wanted: DeadFilter) -> bool:
    """Whether jobs are named by id. Raises BadParameter unless they are named in one way."""
    if sum((bool(job_ids), every, bool(wanted))) != 1:
        raise typer.BadParameter("name jobs by their ids, or by --target, --reason and times, or say --all")
    return bool(job_ids)


def print_dead(jobs: list[JobSummary], more: bool) -> None:
    """Dead jobs as a table."""
    now = datetime.now(UTC)
    rows = [(job.job_id, job.target, _reason(job, now), _error(job.error or {})) for job in jobs]
    print_table(("job", "target", "reason", "error"), rows, whole=1)
    if more:
        print("there are more; --limit shows them")


def _reason(job: JobSummary, now: datetime) -> tuple[str, ...]:
    """Why it died, and how long ago: below each other, since errors take more than a line, too."""
    died = f"{ago(job.finished_at, now)} ago" if job.finished_at else ""
    return tuple(filter(None, (job.reason.value if job.reason else "", died)))


def _error(error: dict[str, Any]) -> str:
    """`KeyError: 'image'`: a message alone may say little."""
    return ": ".join(str(error[part]) for part in ("type", "message") if error.get(part))
