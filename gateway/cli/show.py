"""`gateway plugins`, `gateway version` and `gateway --version`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from gateway import PLUGIN_API, __version__
from gateway.cli.environment import load_settings
from gateway.registry import LoadedPlugin, Registry

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def plugins(as_json: AsJson = False) -> None:
    """Lists the loaded plugins: where each is from, and what it brings."""
    loaded = Registry.build(load_settings()).plugins
    if as_json:
        print(json.dumps({"plugin_api": PLUGIN_API, "plugins": [asdict(plugin) for plugin in loaded]}))
        return
    table = Table(*(Column(name, overflow="fold") for name in ("plugin", "from", "version", "brings")))
    for plugin in loaded:
        table.add_row(plugin.name, plugin.source, plugin.version, "\n".join(_brings(plugin)))
    Console().print(table)


def version(as_json: AsJson = False) -> None:
    """Prints the version."""
    print(json.dumps({"version": __version__}) if as_json else __version__)


def _brings(plugin: LoadedPlugin) -> Iterator[str]:
    """A line for each kind of what a plugin offers; the hooks that only register these are left out."""
    hooks = tuple(hook for hook in plugin.hooks if not hook.startswith("register_"))
    for kind, names in (("executor", plugin.executors), ("verifier", plugin.verifiers), ("hook", hooks)):
        if names:
            yield f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"
