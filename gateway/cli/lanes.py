"""`gateway lanes`: lists, pauses and resumes lanes."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli.printing import print_table
from gateway.cli.session import Session, speaks
from gateway.cli.stats import lane_row
from gateway.client.answers import Lanes
from gateway.client.calls import installation as calls

app = typer.Typer(help="Lists, pauses and resumes lanes.", add_completion=False, no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The lane's name.")]


@app.command("list")
@speaks
def list_(session: Session) -> None:
    """Lists the lanes, the most urgent first, and how much waits in them."""
    session.show(calls.list_lanes(), _print)


@app.command()
@speaks
def pause(session: Session, name: Name) -> None:
    """Lets no job of a lane start; what runs goes on. Holds until it is resumed."""
    session.show(calls.pause_lane(name), _print)


@app.command()
@speaks
def resume(session: Session, name: Name) -> None:
    """Lets a lane's jobs go on."""
    session.show(calls.resume_lane(name), _print)


def _print(lanes: Lanes) -> None:
    print_table(("lane", "pending", "oldest", "state"), map(lane_row, lanes.lanes))
