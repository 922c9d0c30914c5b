"""`gateway dispatch`: the working side alone, without a line of the HTTP side in its memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from typing import Annotated

import structlog
import typer
import uvloop

from gateway.cli.environment import Imports, hand_on, open_process, redis_url
from gateway.dispatch.process import run_dispatcher
from gateway.settings import Settings
from gateway.settings.environment import REDIS_URL, full_name
from gateway.supervisor import Child, Supervisor
from gateway.ties import kill_children

CLOSE_S = 10.0
"""After the last attempt: how long lifespans, processes and connections may take to close."""

END_S = 1.0
"""How long tasks that callables have left may take to end once they are cancelled."""

log = structlog.get_logger(__name__)

Processes = Annotated[int, typer.Option(min=1, max=256, help="Dispatcher processes, restarted if they end.")]


def dispatch(processes: Processes = 1, imports: Imports = None) -> None:
    """The working side: claims jobs and runs them. TERM drains; a second one stops at once."""
    if imports and processes == 1:  # begun anew without options: what read them would stay, 7 MB a dispatcher
        hand_on(imports)
        os.execv(sys.executable, program("dispatch"))  # noqa: S606 (this program)
    settings = open_process(imports)
    if processes > 1:
        raise typer.Exit(asyncio.run(Supervisor(dispatchers(settings, redis_url(settings), processes)).run()))
    uvloop.run(_run(settings))


async def _run(settings: Settings) -> None:
    await run_dispatcher(settings, redis_url=redis_url(settings), over=_exit_in_any_case)
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=END_S)
    # a callable that never returns holds its thread or the event loop, and with it an ordinary exit
    _exit(0)


def _exit_in_any_case() -> None:
    """Ends this process after a while even if closing hangs: in code of a target's module, or in a plugin's."""
    last_resort = threading.Timer(CLOSE_S, _give_up)
    last_resort.daemon = True
    last_resort.start()


def _give_up() -> None:
    log.error("what targets or plugins opened does not close; exiting without", after_s=CLOSE_S)
    _exit(1)


def _exit(code: int) -> None:
    kill_children()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # full, nobody reads it, or a callable has closed it
            stream.flush()
    os._exit(code)


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
