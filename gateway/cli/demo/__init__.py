"""`gateway demo`: a whole installation for a few seconds, made to show what it does and checked at every step.

`demo.toml` is its configuration and `demo_tasks.py` the code that it runs; both read as a user's own would.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.text import Text

from gateway.cli.demo.installation import HERE, running_gateway
from gateway.cli.demo.receiver import Receiver
from gateway.cli.demo.stage import Stage
from gateway.cli.demo.steps import STEPS, Step
from gateway.cli.interrupts import one_interrupt
from gateway.errors import GatewayError
from gateway.logs import configure_logging
from gateway.settings import GatewaySettings

REQUEST_S = 10.0
INTERRUPTED = 130


Stay = Annotated[bool, typer.Option("--stay", help="Keep it running afterwards, until Ctrl-C, to look around.")]


def demo(stay: Stay = False) -> None:
    """Shows it at work in a few seconds, in a temporary folder: webhooks, executors, retries, DLQ, callbacks."""
    configure_logging(GatewaySettings(log_level="warning"))
    raise typer.Exit(play(STEPS, console=Console(highlight=False), stay=stay))


def play(steps: Sequence[Step], *, console: Console, stay: bool = False, sources: Path = HERE) -> int:
    """Runs the steps against a fresh installation; 0 if all came out as told, 1 if not, 130 if interrupted."""
    began_s = time.monotonic()
    try:
        _run(steps, console=console, stay=stay, sources=sources)
    except (GatewayError, httpx.HTTPError) as error:
        text = "\n".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])
        console.print(Text(f"✗ {text}", style="bold red"))
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted; nothing was left behind.")
        return INTERRUPTED
    took_s = time.monotonic() - began_s
    console.print(Text(f"Everything came out as told, in {took_s:.1f} s; nothing was left behind.", style="bold green"))
    console.print(_what_next(sources))
    return 0


def _run(steps: Sequence[Step], *, console: Console, stay: bool, sources: Path) -> None:
    with one_interrupt() as no_more_interrupts:
        try:
            console.print("Starting a gateway, a dispatcher and a Valkey in a temporary folder …")
            with (
                Receiver() as receiver,
                running_gateway(receiver.url, sources=sources) as gateway,
                httpx.Client(base_url=gateway.url, timeout=REQUEST_S, trust_env=False) as api,
            ):
                stage = Stage(api, receiver, console, gateway.github_secret)
                console.print(f"The gateway listens on {gateway.url}\n")
                for number, step in enumerate(steps, 1):
                    console.print(Text(f"{number}  {step.title}", style="bold"))
                    console.print(Text(f"   ✓ {step.run(stage)}\n", style="green"))
                if stay:
                    console.print(_look_around(gateway.url))
                    with contextlib.suppress(KeyboardInterrupt):
                        threading.Event().wait()
        finally:
            no_more_interrupts()


def _look_around(url: str) -> str:
    return f"""\
It stays up until Ctrl-C. In another terminal:

  curl {url}/jobs
  curl {url}/dlq
  curl {url}/openapi.json
"""


def _what_next(sources: Path) -> str:
    return f"""
  gateway demo --stay   the same, kept running, to call its API yourself
  gateway up            your own, from the gateway.toml of your folder; its API
                        is on http://127.0.0.1:8080, and /openapi.json tells all

What ran here, to read or to copy:
  {sources / "demo.toml"}
  {sources / "demo_tasks.py"}"""
