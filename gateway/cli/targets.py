"""`gateway targets`: lists, shows, pauses and resumes targets."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from gateway.cli.printing import print_facts, print_table
from gateway.cli.session import Session, speaks
from gateway.client.answers import Targets, TargetShown
from gateway.client.calls import targets as calls

app = typer.Typer(help="Lists, shows, pauses and resumes targets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The target's name.")]


@app.command("list")
@speaks
def list_(session: Session) -> None:
    """Lists the targets, how many jobs wait for each, and why none may start."""
    session.show(calls.list_targets(), _print_all)


@app.command()
@speaks
def show(session: Session, name: Name) -> None:
    """Shows a target and how it stands."""
    session.show(calls.get_target(name), _print)


@app.command()
@speaks
def pause(session: Session, name: Name) -> None:
    """Lets no job of it start; what runs goes on. Holds until it is resumed."""
    session.show(calls.pause_target(name), _print)


@app.command()
@speaks
def resume(session: Session, name: Name) -> None:
    """Lets its jobs go on."""
    session.show(calls.resume_target(name), _print)


def _print_all(targets: Targets) -> None:
    print_table(("target", "executor", "pending", "running", "state"), map(_row, targets.targets))


def _row(target: TargetShown) -> tuple[object, ...]:
    state = "paused" if target.paused else f"blocked: {target.blocked}" if target.blocked else "open"
    return target.name, target.executor, sum(target.pending.values()), target.running, state


def _print(target: TargetShown) -> None:
    print_facts(msgspec.structs.asdict(target))
