"""The `gateway` command; docs/cli.md has its exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated

import typer

import gateway
from gateway.cli.streams import standard_streams
from gateway.cli.subcommands import Subcommands
from gateway.collector import collect_rarely
from gateway.errors import (
    ConfigError,
    GatewayError,
    NotAllowed,
    StoreMismatch,
    StoreUnavailable,
    Unavailable,
    WaitTimeout,
)

app = typer.Typer(
    name="gateway",
    cls=Subcommands,
    help="A serverless-style event gateway: webhooks and jobs into Redis priority lanes, run by executor plugins.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)

EXIT_CODES: dict[type[GatewayError], int] = {
    ConfigError: os.EX_CONFIG,
    StoreMismatch: os.EX_CONFIG,
    NotAllowed: os.EX_NOPERM,
    StoreUnavailable: os.EX_UNAVAILABLE,
    Unavailable: os.EX_UNAVAILABLE,
    WaitTimeout: os.EX_TEMPFAIL,
}
"""By the kind of error; any other is 1. A job that was waited for and did not succeed is 3, wrong usage 2."""


def _print_version(asked: bool) -> None:
    if asked:
        print(gateway.__version__)
        raise typer.Exit


@app.callback()
def command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What stands before every subcommand."""


def main() -> None:
    """Runs the command; says what is wrong in one line, without a traceback, where it is the user's to mend."""
    collect_rarely()
    with standard_streams():
        try:
            if sys.argv[1:] == ["dispatch"]:  # no option to read, and what reads them would stay: 9 MB a dispatcher
                importlib.import_module("gateway.cli.dispatch").dispatch()
            app()
        except GatewayError as error:
            print(f"gateway: {error}", file=sys.stderr)
            sys.exit(exit_code(error))


def exit_code(error: GatewayError) -> int:
    """What the command exits with for an error of ours."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
