"""The `gateway` command.

Exit codes: 0 well, 1 failed, 2 wrong usage, 69 Redis is away, 78 the configuration is wrong.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gateway.cli import apikeys, bench, config, demo, doctor, health, run, schedules, show, triggers
from gateway.errors import ConfigError, GatewayError, StoreMismatch, StoreUnavailable

app = typer.Typer(
    name="gateway",
    help="A serverless-style event gateway: webhooks and jobs into Redis priority lanes, run by executor plugins.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", callback=show.version_flag, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What stands before every subcommand."""


app.command()(run.up)
app.command()(run.serve)
app.command()(run.dispatch)
app.command()(demo.demo)
app.command()(doctor.doctor)
app.command()(health.health)
app.command("hook-url")(triggers.hook_url)
app.command()(show.plugins)
app.command()(show.version)
app.add_typer(apikeys.app, name="apikeys")
app.add_typer(config.app, name="config")
app.add_typer(schedules.app, name="schedules")
app.add_typer(triggers.app, name="triggers")
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Runs the command; says what is wrong in one line, without a traceback, where it is the user's to mend."""
    try:
        app()
    except GatewayError as error:
        print(f"gateway: {error}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: GatewayError) -> int:
    """What the command exits with for an error of ours."""
    if isinstance(error, (ConfigError, StoreMismatch)):
        return os.EX_CONFIG
    return os.EX_UNAVAILABLE if isinstance(error, StoreUnavailable) else 1
