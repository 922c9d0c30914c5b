"""`gateway schedules`: defines, lists, shows, pauses, resumes, runs and deletes schedules."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from gateway.cli.printing import print_facts, print_table, printable
from gateway.cli.reading import options_of, read_duration, read_json
from gateway.cli.session import Session, speaks
from gateway.client.answers import ScheduleRecord, ScheduleSummary
from gateway.client.bodies import ScheduleBody
from gateway.client.calls import schedules as calls

app = typer.Typer(
    help="Defines, lists, shows, pauses, resumes, runs and deletes schedules.",
    add_completion=False,
    no_args_is_help=True,
)

_PAGE = 100
_MOST = 100_000

Name = Annotated[str, typer.Argument(help="The schedule's name.")]


@app.command("list")
@speaks
def list_(session: Session) -> None:
    """Lists every schedule and when it fires next; `show` tells what came of one so far."""
    session.list(calls.list_schedules(_PAGE), _MOST, _print_all)


@app.command()
@speaks
def show(session: Session, name: Name) -> None:
    """Shows a schedule with its payload."""
    session.show(calls.get_schedule(name), _print)


@app.command()
@speaks
def put(
    session: Session,
    name: Name,
    cron: Annotated[str, typer.Option(help='When, such as "30 2 * * MON-FRI" or "@daily".')],
    target: Annotated[str, typer.Option(help="What runs it.")],
    payload: Annotated[str | None, typer.Option(help="JSON; - reads standard input, @FILE a file.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Such as Europe/Berlin; left out: UTC.")] = None,
    lane: Annotated[str | None, typer.Option(help="The lane; left out: the target's.")] = None,
    priority: Annotated[int | None, typer.Option(min=-100, max=100, help="The higher the sooner.")] = None,
    key: Annotated[str | None, typer.Option(help="The jobs' key.")] = None,
    jitter: Annotated[str | None, typer.Option(help="Later by up to so long.")] = None,
    catch_up: Annotated[str | None, typer.Option(help='"skip", "once" or "all(N)", for missed slots.')] = None,
    overlap: Annotated[str | None, typer.Option(help='"allow", "forbid" or "replace".')] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Begins paused.")] = False,
    max_attempts: Annotated[int | None, typer.Option(min=1, help="Of each job.")] = None,
    timeout: Annotated[str | None, typer.Option(help="Of one attempt.")] = None,
    tag: Annotated[list[str], typer.Option(help="A tag; may be there several times.")] = [],  # noqa: B006 (typer copies it)
) -> None:
    """Makes a schedule, or replaces it as a whole."""
    body: ScheduleBody = options_of(
        cron=cron,
        target=target,
        payload=read_json(payload),
        timezone=timezone,
        lane=lane,
        priority=priority,
        key=key,
        jitter=read_duration(jitter),
        catch_up=catch_up,
        overlap=overlap,
        paused=paused or None,
        max_attempts=max_attempts,
        timeout=read_duration(timeout),
        tags=tag,
    )
    session.show(calls.put_schedule(name, body), _print)


@app.command()
@speaks
def pause(session: Session, name: Name) -> None:
    """Lets no slot of it fire until it is resumed."""
    session.show(calls.pause_schedule(name), lambda schedule: print("paused"))


@app.command()
@speaks
def resume(session: Session, name: Name) -> None:
    """Lets it go on, and prints when it fires next."""
    session.show(calls.resume_schedule(name), lambda schedule: print("next", printable(schedule.next_run_at)))


@app.command()
@speaks
def run(session: Session, name: Name) -> None:
    """Makes a job of it now, paused or not, and prints the job's id."""
    session.show(calls.run_schedule(name), lambda accepted: print(accepted.job_id))


@app.command()
@speaks
def delete(session: Session, name: Name) -> None:
    """Deletes it; its jobs stay."""
    session.run(lambda gateway: gateway.call(calls.delete_schedule(name)))
    session.done({"deleted": name}, f"deleted {name}")


def _print(schedule: ScheduleRecord) -> None:
    print_facts(msgspec.structs.asdict(schedule))


def _print_all(found: list[ScheduleSummary], more: bool) -> None:
    print_table(("name", "cron", "target", "next", "state"), map(_row, found))


def _row(schedule: ScheduleSummary) -> tuple[object, ...]:
    """A row that fits 80 columns: the zone below the cron unless it is UTC."""
    cron = schedule.cron if schedule.timezone == "UTC" else (schedule.cron, schedule.timezone)
    fires = None if schedule.paused else schedule.next_run_at
    state = "paused" if schedule.paused else "over" if fires is None else "active"
    return schedule.name, cron, schedule.target, fires, state
