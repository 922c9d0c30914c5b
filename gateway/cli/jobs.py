"""`gateway jobs`: submits jobs, looks at them, waits for them, cancels them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from gateway.cli.cancelling import UNFINISHED, cancel_all, cancel_each
from gateway.cli.counting import count_all
from gateway.cli.following import follow_all, follow_job
from gateway.cli.naming import warn_of_unknown_target
from gateway.cli.printing import ago, is_wide, print_facts, print_json, print_table
from gateway.cli.reading import options_of, read_duration, read_jobs, read_json, read_seconds
from gateway.cli.session import Session, speaks
from gateway.cli.submitting import submit_all, submit_one
from gateway.cli.waiting import ENDED_BADLY, wait_for
from gateway.client.answers import CancelAnswer, JobRecord, JobSummary
from gateway.client.bodies import JobOptions
from gateway.client.calls import dlq
from gateway.client.calls import jobs as calls
from gateway.jobs import Status

app = typer.Typer(
    help="Submits jobs, looks at them, waits for them, cancels them.", add_completion=False, no_args_is_help=True
)

JobId = Annotated[str, typer.Argument(help="The job's id.")]
JobIds = Annotated[list[str], typer.Argument(help="One or more ids of jobs.")]
Timeout = Annotated[str | None, typer.Option(help='How long at most, such as "30s"; exits with 75 then.')]
Most = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]
Lane = Annotated[str | None, typer.Option(help="Of this lane only.")]
Target = Annotated[str | None, typer.Option(help="Of this target only.")]
Tag = Annotated[str | None, typer.Option(help="With this tag only.")]

_DATA = ("payload", "result")


@app.command()
@speaks
def submit(
    session: Session,
    target: Annotated[str | None, typer.Argument(help="What runs it.")] = None,
    payload: Annotated[str | None, typer.Argument(help="JSON; - reads standard input, @FILE a file.")] = None,
    file: Annotated[str | None, typer.Option(help="Many jobs instead: a JSON array or NDJSON; - is stdin.")] = None,
    lane: Annotated[str | None, typer.Option(help="The lane; left out: the target's.")] = None,
    priority: Annotated[int | None, typer.Option(min=-100, max=100, help="The higher the sooner.")] = None,
    run_at: Annotated[str | None, typer.Option(help="When, such as 2026-03-14T15:00:00Z.")] = None,
    delay: Annotated[str | None, typer.Option(help='In how long, such as "10m".')] = None,
    expires_in: Annotated[str | None, typer.Option(help="Dead if it has not started by then.")] = None,
    max_attempts: Annotated[int | None, typer.Option(min=1, help="How often it is tried.")] = None,
    timeout: Annotated[str | None, typer.Option(help="Of one attempt.")] = None,
    retry: Annotated[str | None, typer.Option(help='What differs from the target\'s, as JSON: {"base": "1s"}.')] = None,
    key: Annotated[str | None, typer.Option(help="The job's key: its flow within the target.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="A repeat is the first job again.")] = None,
    tag: Annotated[list[str], typer.Option(help="A tag; may be there several times.")] = [],  # noqa: B006 (typer copies it)
    callback_url: Annotated[str | None, typer.Option(help="Where its end is told.")] = None,
    callback_event: Annotated[
        list[str], typer.Option(help="Which ends, such as job.dead; may be there several times; left out: all.")
    ] = [],  # noqa: B006 (as above)
    wait: Annotated[
        str | None, typer.Option(help="Wait so long for its end, such as 30s; exits with 3 unless it succeeds.")
    ] = None,
) -> None:
    """Submits a job and prints its id; or, with --file, many."""
    if (target is None) == (file is None):
        raise typer.BadParameter("name a target, or give --file")
    if file is not None:
        submit_all(session, list(read_jobs(file)))
        return
    if callback_event and callback_url is None:
        raise typer.BadParameter("needs --callback-url", param_hint="--callback-event")
    assert target is not None
    options: JobOptions = options_of(
        lane=lane,
        priority=priority,
        run_at=run_at,
        delay=read_duration(delay),
        expires_in=read_duration(expires_in),
        max_attempts=max_attempts,
        timeout=read_duration(timeout),
        retry=read_json(retry),
        key=key,
        idempotency_key=idempotency_key,
        tags=tag,
        callback=callback_url and options_of(url=callback_url, events=callback_event),
    )
    submit_one(session, target, read_json(payload), options, wait_s=read_seconds(wait, 0.0))


@app.command()
@speaks
def get(session: Session, job_id: JobId) -> None:
    """Prints a job's record."""
    session.show(calls.get(job_id), print_record)


@app.command("list")
@speaks
def list_(
    session: Session,
    status: Annotated[Status | None, typer.Option(help="Of this status only.")] = None,
    target: Target = None,
    lane: Lane = None,
    tag: Tag = None,
    limit: Most = 50,
) -> None:
    """Lists jobs: running ones first, then those that wait in the order in which they run, then the rest."""
    wanted = options_of(status=status and status.value, target=target, lane=lane, tag=tag)

    def text(found: list[JobSummary], more: bool) -> None:
        print_jobs(found, more)
        if not found and target is not None:
            warn_of_unknown_target(target, session.run)

    session.list(calls.list_jobs(min(limit, 100), **wanted), limit, text)


@app.command()
@speaks
def count(session: Session, target: Target = None, lane: Lane = None, tag: Tag = None) -> None:
    """Counts jobs by status, those of one batch by their tag; what starts or ends meanwhile may be missed."""
    counts = count_all(session, options_of(target=target, lane=lane, tag=tag))
    if session.as_json:
        print_json(counts)
    else:
        print_table(("status", "jobs"), counts.items())


@app.command()
@speaks
def cancel(
    session: Session,
    job_ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of jobs; left out: those that the options name.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every job that is not over.")] = False,
    target: Target = None,
    lane: Lane = None,
    tag: Tag = None,
    status: Annotated[Status | None, typer.Option(help="Of this status only, such as pending.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Cancels jobs that wait, and asks those that run to stop: those named, or those that the options name."""
    wanted = options_of(target=target, lane=lane, tag=tag)
    if sum((bool(job_ids), every, bool(wanted or status))) != 1:
        raise typer.BadParameter("name jobs by their ids, or by --target, --lane, --tag and --status, or say --all")
    if status is not None and status.finished:
        raise typer.BadParameter(f"{status.value} jobs are over", param_hint="--status")
    if job_ids:
        _cancel_named(session, job_ids)
        return
    if not yes:
        typer.confirm(f"Cancel {'every job' if every else 'these jobs'}?", abort=True, err=True)
    cancel_all(session, wanted, UNFINISHED if status is None else (status,))


@app.command()
@speaks
def retry(
    session: Session,
    job_id: JobId,
    max_attempts: Annotated[int | None, typer.Option(min=1, help="From now on.")] = None,
) -> None:
    """Sends a dead job back to its lane, as `gateway dlq retry` does."""
    session.show(dlq.retry(job_id, max_attempts), lambda record: print(record.status.value))


@app.command()
@speaks
def wait(session: Session, job_ids: JobIds, timeout: Timeout = None) -> None:
    """Waits until every job is over, and prints the records; exits with 3 if one of them did not succeed."""
    records = wait_for(session, job_ids, read_seconds(timeout, math.inf))
    if session.as_json:
        print_json({"jobs": records})
    else:
        print_table(("job", "target", "status", "reason", "attempts"), map(_ended, records), whole=1)
    if any(record["status"] != Status.SUCCEEDED for record in records):
        raise typer.Exit(ENDED_BADLY)


@app.command()
@speaks
def tail(
    session: Session,
    job_id: Annotated[str | None, typer.Argument(help="The job's id; left out: whatever happens to any job.")] = None,
    target: Target = None,
    lane: Lane = None,
) -> None:
    """Prints what happens to a job until it is over, or to all jobs until Ctrl-C; with --json a line for each event."""
    if job_id is None:
        follow_all(session, options_of(target=target, lane=lane))
        return
    if follow_job(session, job_id) != Status.SUCCEEDED:
        raise typer.Exit(ENDED_BADLY)


def _cancel_named(session: Session, job_ids: list[str]) -> None:
    def text(answer: CancelAnswer) -> None:
        print("cancelled" if answer.status == "cancelled" else "it runs, and was asked to stop")

    if len(job_ids) == 1:
        session.show(calls.cancel(job_ids[0]), text)
    else:
        cancel_each(session, job_ids)


def print_record(record: JobRecord) -> None:
    """A record, a line for each fact; an empty payload or result is one, too."""
    facts = msgspec.structs.asdict(record)
    shown = {name: getattr(value, "value", value) for name, value in facts.items()}
    empty = {name: msgspec.json.encode(facts[name]).decode() for name in _DATA if facts[name] in ("", [], {})}
    print_facts(shown | empty)


def print_jobs(jobs: list[JobSummary], more: bool) -> None:
    """Jobs as a table; in a wide terminal with how long ago they came."""
    wide, now = is_wide(), datetime.now(UTC)
    names = ("job", "target", "status", "lane", "attempts", *(("age",) if wide else ()))
    print_table(names, (_row(job, now if wide else None) for job in jobs), whole=1)
    if more:
        print("there are more; --limit shows them")


def _row(job: JobSummary, now: datetime | None) -> tuple[object, ...]:
    """With its age at `now`, if that is given; else what it is and why in two lines, of which each fits 80 columns."""
    told = tuple(filter(None, (job.status.value, job.reason or job.waiting_on)))
    facts = job.job_id, job.target, ": ".join(told) if now else told, job.lane, f"{job.attempts}/{job.max_attempts}"
    return (*facts, ago(job.created_at, now)) if now else facts


def _ended(record: dict[str, object]) -> tuple[object, ...]:
    return tuple(record.get(name) for name in ("job_id", "target", "status", "reason", "attempts"))
