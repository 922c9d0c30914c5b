"""`gateway config`: is the configuration right?"""

from __future__ import annotations

import os

import typer

from gateway.cli.environment import load_settings
from gateway.registry import Registry

app = typer.Typer(help="Checks the configuration.", no_args_is_help=True)


@app.callback()
def config() -> None:
    """Checks the configuration."""


@app.command()
def check() -> None:
    """Reads the environment and gateway.toml, loads the plugins, and lets each executor look at its targets."""
    settings = load_settings()
    registry = Registry.build(settings)
    faults = registry.check()
    for fault in faults:
        print(f"{fault}")
    if faults:
        raise typer.Exit(os.EX_CONFIG)
    print(f"{settings.source}: {len(registry.targets)} targets, {len(registry.triggers)} triggers, all well")
