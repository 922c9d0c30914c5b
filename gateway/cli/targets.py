"""`gateway targets`: lists, shows, registers, tries out, pauses and resumes targets."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from gateway.cli.printing import print_facts, print_json, print_table
from gateway.cli.reading import read_duration, read_json, read_object
from gateway.cli.session import Session, speaks
from gateway.cli.waiting import ENDED_BADLY
from gateway.client.answers import BreakerShown, Probed, RetryShown, Targets, TargetShown
from gateway.client.calls import targets as calls
from gateway.durations import roughly

app = typer.Typer(
    help="Lists, shows, registers, tries out, pauses and resumes targets.", add_completion=False, no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="The target's name.")]


@app.command("list")
@speaks
def list_(session: Session) -> None:
    """Lists the targets, how many jobs wait for each, and why none may start."""
    session.show(calls.list_targets(), print_targets)


@app.command()
@speaks
def show(session: Session, name: Name) -> None:
    """Shows a target and how it stands."""
    session.show(calls.get_target(name), print_target)


@app.command()
@speaks
def pause(session: Session, name: Name) -> None:
    """Lets no job of it start; what runs goes on. Holds until it is resumed."""
    session.show(calls.pause_target(name), print_target)


@app.command()
@speaks
def resume(session: Session, name: Name) -> None:
    """Lets its jobs go on."""
    session.show(calls.resume_target(name), print_target)


@app.command()
@speaks
def put(
    session: Session,
    name: Name,
    table: Annotated[str, typer.Argument(help="Its table as JSON; - reads standard input, @FILE a file.")],
) -> None:
    """Registers a target, or replaces it: {"executor": "http", "url": "https://…"}."""
    session.show(calls.put_target(name, read_object(table)), print_target)


@app.command()
@speaks
def delete(
    session: Session,
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also while jobs wait for it.")] = False,
) -> None:
    """Forgets a registered target."""
    session.run(lambda gateway: gateway.targets.delete(name, force=force))
    session.done({"deleted": name}, f"deleted {name}")


@app.command("test")
@speaks
def try_out(
    session: Session,
    name: Name,
    payload: Annotated[str | None, typer.Argument(help="JSON; - reads standard input, @FILE a file.")] = None,
) -> None:
    """Sends it one signed request, without a job; exits with 3 if an attempt would have failed."""
    probed = session.signing().run(lambda gateway: gateway.targets.test(name, read_json(payload)))
    if session.as_json:
        print_json(probed)
    else:
        _print_probed(probed)
    if probed.outcome not in ("succeeded", "parked"):
        raise typer.Exit(ENDED_BADLY)


@app.command()
@speaks
def rotate(
    session: Session,
    name: Name,
    overlap: Annotated[str | None, typer.Option(help="How long the old one signs as well; left out: 24h.")] = None,
) -> None:
    """Gives a registered target a new secret, and prints it; it cannot be shown again."""
    session.show(calls.rotate_target(name, overlap=read_duration(overlap)), lambda made: print(made.secret))


@app.command()
@speaks
def enable(
    session: Session,
    name: Name,
    replay: Annotated[bool, typer.Option("--replay", help="Send back what died while it was disabled.")] = False,
    rate: Annotated[str | None, typer.Option(help='How fast, such as "50/s"; left out: 100/s.')] = None,
) -> None:
    """Lets a disabled target's jobs go on, and closes its breaker."""
    session.show(calls.enable_target(name, replay=replay, rate=rate), print_target)


def _print_probed(probed: Probed) -> None:
    print_facts(
        {
            "outcome": probed.outcome,
            "took": f"{probed.duration_ms} ms",
            "error": probed.error and f"{probed.error.type}: {probed.error.message}",
            "request": probed.request and f"{probed.request.method} {probed.request.url}",
            "status": probed.response and probed.response.status,
            "answer": probed.response and probed.response.body,
        }
    )


def print_targets(targets: Targets) -> None:
    """Targets as a table."""
    print_table(("target", "executor", "pending", "running", "state"), map(_row, targets.targets))


def _row(target: TargetShown) -> tuple[object, ...]:
    blocked = target.blocked or ("paused" if target.paused else "")
    passing = blocked not in ("", "paused", "disabled")  # by itself: these, somebody has to end
    state = f"blocked: {blocked}" if passing else blocked or "ready"
    return target.name, target.executor, sum(target.pending.values()), target.running, state


def print_target(target: TargetShown) -> None:
    """A target, a line for each fact."""
    facts = msgspec.structs.asdict(target)
    facts |= {"timeout": target.timeout and f"{target.timeout:g} s", "retry": target.retry and _retry(target.retry)}
    facts["breaker"] = target.breaker and _breaker(target.breaker)
    if target.blocked == "breaker":  # it is open, and closes by itself
        facts = {"breaker_open_since" if name == "disabled_at" else name: value for name, value in facts.items()}
    print_facts(facts)


def _breaker(breaker: BreakerShown) -> str:
    failed = f"{breaker.ratio:.0%} of at least {breaker.minimum} attempts in {roughly(breaker.window)} failed"
    return f"opens for {roughly(breaker.pause)} to {roughly(breaker.cap)} once {failed}"


def _retry(retry: RetryShown) -> str:
    after = roughly(retry.gives_up_after)
    return f"{retry.policy}, at most {retry.max_attempts} attempts, gives up after about {after}"
