"""`gateway plugins` and `gateway version`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from gateway import PLUGIN_API, __version__
from gateway.cli.environment import load_settings
from gateway.registry import Registry

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def plugins(as_json: AsJson = False) -> None:
    """Lists the loaded plugins: where each is from, and what it brings."""
    loaded = Registry.build(load_settings()).plugins
    if as_json:
        print(json.dumps({"plugin_api": PLUGIN_API, "plugins": [asdict(plugin) for plugin in loaded]}))
        return
    table = Table(
        *(Column(name, overflow="fold") for name in ("plugin", "from", "version", "executors", "verifiers", "hooks"))
    )
    for plugin in loaded:
        brings = (", ".join(names) for names in (plugin.executors, plugin.verifiers, plugin.hooks))
        table.add_row(plugin.name, plugin.source, plugin.version, *brings)
    Console().print(table)


def version() -> None:
    """Prints the version."""
    print(__version__)
