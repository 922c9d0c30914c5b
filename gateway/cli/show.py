"""`gateway plugins`, `gateway version` and `gateway --version`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from gateway import PLUGIN_API, __version__
from gateway.cli import plugin_project
from gateway.cli.environment import load_settings
from gateway.cli.printing import print_table
from gateway.errors import PluginError
from gateway.registry import LoadedPlugin, survey

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


app = typer.Typer(help="Lists the plugins, and begins a new one.", add_completion=False, invoke_without_command=True)


app.command()(plugin_project.new)


@app.callback()
def plugins(context: typer.Context, as_json: AsJson = False) -> None:
    """Lists the plugins: where each is from, what it brings, and what is wrong with those that cannot be used."""
    if context.invoked_subcommand is not None:
        return
    loaded, faults = survey(load_settings(secrets_required=False))
    if as_json:
        failed = [{"name": _name_of(fault), "error": fault.detail} for fault in faults]
        listing = [asdict(plugin) for plugin in loaded]
        print(json.dumps({"plugin_api": PLUGIN_API, "plugins": listing, "failed": failed}))
    else:
        rows: list[tuple[object, ...]] = [
            (plugin.name, plugin.source, plugin.version, tuple(_brings(plugin))) for plugin in loaded
        ]
        rows += [(_name_of(fault), "failed", "", fault.detail) for fault in faults]
        print_table(("plugin", "from", "version", "brings"), rows)
    if faults:
        raise typer.Exit(os.EX_CONFIG)


def _name_of(fault: PluginError) -> str:
    return fault.place.removeprefix("plugin ")


def version(as_json: AsJson = False) -> None:
    """Prints the version."""
    print(json.dumps({"version": __version__}) if as_json else __version__)


def _brings(plugin: LoadedPlugin) -> Iterator[str]:
    """A line for each kind of what a plugin offers; the hooks that only register these are left out."""
    hooks = tuple(hook for hook in plugin.hooks if not hook.startswith("register_"))
    for kind, names in (("executor", plugin.executors), ("verifier", plugin.verifiers), ("hook", hooks)):
        if names:
            yield f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}"
