"""`gateway dispatch`: the working side alone, without a line of the HTTP side in its memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Annotated

import typer
import uvloop

from gateway.cli.environment import Imports, hand_on, open_process, redis_url
from gateway.dispatch.process import run_dispatcher
from gateway.settings import Settings
from gateway.settings.environment import REDIS_URL, full_name
from gateway.supervisor import Child, Supervisor, kill_children

Processes = Annotated[int, typer.Option(min=1, max=256, help="Dispatcher processes, restarted if they end.")]


def dispatch(processes: Processes = 1, imports: Imports = None) -> None:
    """The working side: claims jobs and runs them. TERM drains; a second one stops at once."""
    if imports and processes == 1:  # begun anew without options: what read them would stay, 7 MB a dispatcher
        hand_on(imports)
        os.execv(sys.executable, program("dispatch"))  # noqa: S606 (this program)
    settings = open_process(imports)
    if processes > 1:
        raise typer.Exit(asyncio.run(Supervisor(dispatchers(settings, redis_url(settings), processes)).run()))
    uvloop.run(run_dispatcher(settings, redis_url=redis_url(settings)))
    # a synchronous callable that never returns holds its thread, and with it an ordinary exit
    kill_children()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # full, or nobody reads it
            stream.flush()
    os._exit(0)


def dispatchers(settings: Settings, url: str, processes: int) -> list[Child]:
    """What is to be started and watched for so many dispatchers, each with a port of its own."""
    first = settings.gateway.dispatcher_port
    port = full_name("gateway", "dispatcher_port")
    return [
        Child(
            f"dispatcher-{index + 1}",
            program("dispatch"),
            {REDIS_URL: url, port: str(first + index if first else 0)},
            stage=1,
        )
        for index in range(processes)
    ]


def program(*arguments: str) -> list[str]:
    """This program with other arguments; `-P`, so that a folder named `gateway` in the working directory is not it."""
    return [sys.executable, "-P", "-m", "gateway", *arguments]
